#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "layers/layer.h"
#include "net/parameters.h"

namespace poseidon::net {

/// Converts a net's parameters between two orders of elements. "Packed" is the order in which their
/// layers keep them. Canonical order is the dense one of the network file; messages, sums and
/// checkpoints use it.
class CanonicalValues {
 public:
  /// Both must outlive this object.
  CanonicalValues(Device& device, Parameters& parameters)
      : device_(device), parameters_(parameters) {}

  /// Initializes each parameter with its filler, as a pure function of the seed, and each statistic
  /// with its initial value.
  void initialize(uint64_t seed);

  // The following functions use host memory on one side. They block.
  /// A parameter's value in canonical order, and its assignment.
  std::vector<float> canonical(const Parameter& parameter) const;
  void set_canonical(const Parameter& parameter, std::span<const float> values);
  /// The same conversion for tensors in the parameter's packed order (optimizer state, gradient).
  void write_packed(const Parameter& parameter, std::span<const float> canonical,
                    std::span<float> packed) const;
  void read_packed(const Parameter& parameter, std::span<const float> packed,
                   std::span<float> canonical) const;

  // The following functions use device and staging memory (core/device.h). They only issue work.
  /// Whether both orders are equal. If so, a gradient can be sent and received in place.
  bool canonical_is_packed(const Parameter& parameter) const;
  /// Writes a parameter's gradient or value to `out` in canonical order, and sets a gradient from
  /// that order. Spans have spec.shape.count() elements, in device or staging memory.
  void canonical_gradient(const Parameter& parameter, std::span<float> out) const;
  void canonical_value(const Parameter& parameter, std::span<float> out) const;
  void gradient_from_canonical(const Parameter& parameter, std::span<const float> values);

 private:
  Device& device_;
  Parameters& parameters_;
};

}  // namespace poseidon::net
