#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "layers/layer.h"
#include "net/parameters.h"

namespace poseidon::net {

/// Moves the values of a net's parameters between the order in which their layers keep them
/// ("packed") and canonical order, the dense one of the network file, which is also that of the
/// wire, of sums and of checkpoints.
class Values {
 public:
  /// Both must outlive it.
  Values(Device& device, Parameters& parameters) : device_(device), parameters_(parameters) {}

  /// Fills every parameter by its filler, a pure function of the seed; statistics by their first
  /// value.
  void initialize(uint64_t seed);

  // Between memory of the host and of the device; all of these block.
  /// A parameter's value in canonical order.
  std::vector<float> canonical(const Parameter& parameter) const;
  void set_canonical(const Parameter& parameter, std::span<const float> values);
  /// The same of a tensor that is kept like the parameter (optimizer state, gradient).
  void write_packed(const Parameter& parameter, std::span<const float> canonical,
                    std::span<float> packed) const;
  void read_packed(const Parameter& parameter, std::span<const float> packed,
                   std::span<float> canonical) const;

  // Between the device's memory and staging memory (core/device.h): work that is issued.
  /// Whether both orders are one, so that a gradient can be sent and received where it lies.
  bool canonical_is_packed(const Parameter& parameter) const;
  /// A parameter's gradient in canonical order, into `out` (spec.shape.count() elements, of the
  /// device or staging), and back.
  void canonical_gradient(const Parameter& parameter, std::span<float> out) const;
  void canonical_value(const Parameter& parameter, std::span<float> out) const;
  void gradient_from_canonical(const Parameter& parameter, std::span<const float> values);

 private:
  Device& device_;
  Parameters& parameters_;
};

}  // namespace poseidon::net
