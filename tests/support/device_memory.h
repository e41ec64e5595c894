#pragma once

#include <vector>

#include "core/device.h"
#include "core/tensor.h"

namespace poseidon::test {

using Values = std::vector<float>;

/// Memory that a test takes of a device, whichever it is: the host reaches it by copies alone. It
/// begins as NaN, so that what should be written and is not is seen. Given back with this object.
class DeviceMemory {
 public:
  explicit DeviceMemory(Device& device) : device_(device) {}

  /// 64-byte aligned.
  float* take(size_t bytes);
  float* take_floats(int64_t count) { return take(static_cast<size_t>(count) * sizeof(float)); }
  /// Memory for a tensor of this shape and format.
  Tensor take_tensor(const Shape& shape, Format format);

  /// Memory with these in it.
  float* hold(const Values& values);
  template <class T>
  std::span<const T> hold(std::span<const T> all) {
    const std::span<std::byte> there = allocate(all.size_bytes());
    device_.write(std::as_bytes(all), there);
    return {reinterpret_cast<const T*>(there.data()), all.size()};
  }

  /// What lies in device memory when the work so far is done.
  Values values_at(const float* from, size_t count) const;

  /// Between canonical order and a tensor in device memory, in its format.
  void store(const Values& canonical, const Tensor& target);
  Values load(const Tensor& source) const;
  /// Fails where a padding lane of a tensor is not zero.
  void check_padding_is_zero(const Tensor& tensor) const;

 private:
  std::span<std::byte> allocate(size_t bytes);
  Tensor on_host(const Tensor& tensor, Buffer& memory) const;

  Device& device_;
  std::vector<Buffer> buffers_;
};

}  // namespace poseidon::test
