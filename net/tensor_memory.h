#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "core/device.h"

namespace poseidon::net {

/// Memory of a device for the tensors of one kind (values, gradients, an optimizer state), handed
/// out in order, each from a cache line on, zeroed.
///
/// An update goes through a tensor of every kind side by side. If they lay at the same place of
/// their pages, its loads would wait for its stores (4 KiB aliasing): adam took 1.2 times as long,
/// updates into a second version 1.1 times. So each kind begins some lines after the one before.
class TensorMemory {
 public:
  TensorMemory() = default;
  /// `floats`: the sum of padded() over all tensors. Throws OutOfMemory, which says for what
  /// `purpose`.
  TensorMemory(Device& device, size_t floats, size_t kind, std::string_view purpose)
      : buffer_(device.allocate(bytes(floats, kind), Place::kDevice, purpose)),
        rest_(buffer_.as<float>().subspan(kind * kStagger)) {}

  /// What it takes.
  static constexpr size_t bytes(size_t floats, size_t kind) {
    return (floats + kind * kStagger) * sizeof(float);
  }

  static constexpr size_t padded(size_t floats) { return (floats + kLine - 1) / kLine * kLine; }

  std::span<float> take(size_t floats) {
    const std::span<float> piece = rest_.first(floats);
    rest_ = rest_.subspan(padded(floats));
    return piece;
  }

 private:
  static constexpr size_t kLine = 64 / sizeof(float);
  static constexpr size_t kStagger = 17 * kLine;

  Buffer buffer_;
  std::span<float> rest_;
};

}  // namespace poseidon::net
