#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "layers/layer.h"
#include "net/parameters.h"

namespace poseidon::net {

/// Converts the parameters of a net between two orders of elements. Packed order is the order in
/// which a layer stores its parameters. Canonical order is the dense order of
/// layers::ParameterSpec, which messages, sums and checkpoints use.
class CanonicalValues {
 public:
  /// `device` and `parameters` must outlive this object.
  CanonicalValues(Device& device, Parameters& parameters)
      : device_(device), parameters_(parameters) {}

  /// Allocates device memory for conversions. Throws OutOfMemory.
  void allocate_memory();
  /// Bytes that allocate_memory() allocates.
  size_t bytes() const;

  /// Initializes each parameter with its filler, as a pure function of the seed, and each statistic
  /// with its initial value.
  void initialize(uint64_t seed);

  // Conversions from and to any host memory. They block until the conversion is done.
  /// Returns or sets the value of a parameter in canonical order.
  std::vector<float> canonical(const Parameter& parameter) const;
  void set_canonical(const Parameter& parameter, std::span<const float> values);
  /// Issues the rounding of the parameter's value, if its layer reads the rounded value. Call this
  /// function after code other than this class and the updates has written the value.
  void round(const Parameter& parameter) const;
  /// Writes or reads another tensor in the packed order of the parameter, such as optimizer state.
  /// `packed` is device memory.
  void write_packed(const Parameter& parameter, std::span<const float> canonical,
                    std::span<float> packed) const;
  void read_packed(const Parameter& parameter, std::span<const float> packed,
                   std::span<float> canonical) const;

  // Conversions in device memory, or in host memory that the device shares. They issue work to the
  // device and do not block.
  /// Whether the two orders of a parameter are equal. Conversions then only copy.
  bool canonical_is_packed(const Parameter& parameter) const;
  // Each span below has spec.shape.count() elements.
  /// Writes the parameter's gradient to `out` in canonical order.
  void canonical_gradient(const Parameter& parameter, std::span<float> out) const;
  /// Writes the parameter's value to `out` in canonical order.
  void canonical_value(const Parameter& parameter, std::span<float> out) const;
  /// Sets the parameter's gradient from `values`, which are in canonical order.
  void gradient_from_canonical(const Parameter& parameter, std::span<const float> values);

 private:
  bool needs_scratch(const Parameter& parameter) const;
  std::span<float> scratch(size_t floats) const { return scratch_.as<float>().first(floats); }

  Device& device_;
  Parameters& parameters_;
  /// Has the size of the largest parameter whose two orders differ. Empty if there is none, or if
  /// the device shares host memory.
  Buffer scratch_;
};

}  // namespace poseidon::net
