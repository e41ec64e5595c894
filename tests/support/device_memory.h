#pragma once

#include <vector>

#include "core/device.h"
#include "core/tensor.h"

namespace poseidon::test {

using Values = std::vector<float>;

/// Memory that a test allocates on a device of any kind. The host accesses it only by copies. Each
/// allocation is filled with NaN, so a value that the tested code forgets to write is visible. The
/// destructor frees all memory.
class DeviceMemory {
 public:
  explicit DeviceMemory(Device& device) : device_(device) {}

  /// The result is 64-byte aligned.
  float* take(size_t bytes);
  float* take_floats(int64_t count) { return take(static_cast<size_t>(count) * sizeof(float)); }
  /// Allocates memory for a tensor of this shape and format.
  Tensor take_tensor(const Shape& shape, Format format);

  /// Allocates memory and copies the values into it.
  float* hold(const Values& values);
  template <class T>
  std::span<const T> hold(std::span<const T> all) {
    const std::span<std::byte> there = allocate(all.size_bytes());
    device_.write(std::as_bytes(all), there);
    return {reinterpret_cast<const T*>(there.data()), all.size()};
  }

  /// Values in device memory after all issued work is done.
  Values values_at(const float* from, size_t count) const;

  /// Copies between canonical order and a tensor in device memory, in the tensor's format.
  void store(const Values& canonical, const Tensor& target);
  Values load(const Tensor& source) const;
  /// Fails if a padding lane of the tensor is not zero.
  void check_padding_is_zero(const Tensor& tensor) const;

 private:
  std::span<std::byte> allocate(size_t bytes);
  Tensor on_host(const Tensor& tensor, Buffer& memory) const;

  Device& device_;
  std::vector<Buffer> buffers_;
};

}  // namespace poseidon::test
