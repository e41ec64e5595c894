#include "tests/support/device_memory.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "core/bf16.h"
#include "layers/cpu/reorder.h"

namespace poseidon::test {

namespace {

float element(const Tensor& tensor, int64_t place) {
  if (tensor.format.type == DataType::kBf16) return tensor.as<Bf16>()[place];
  return tensor.as<float>()[place];
}

std::span<const std::byte> bytes_of(const Tensor& tensor) {
  return {reinterpret_cast<const std::byte*>(tensor.data),
          stored_bytes(tensor.shape, tensor.format)};
}

}  // namespace

std::span<std::byte> DeviceMemory::allocate(size_t bytes) {
  constexpr size_t kLeast = 64;
  buffers_.push_back(device_.allocate(std::max(bytes, kLeast), MemoryKind::kDevice, "a test"));
  return buffers_.back().as<std::byte>();
}

float* DeviceMemory::take(size_t bytes) {
  const std::span<std::byte> there = allocate(bytes);
  const std::vector<std::byte> poison(there.size(), std::byte{0xFF});
  device_.write(poison, there);
  return reinterpret_cast<float*>(there.data());
}

Tensor DeviceMemory::take_tensor(const Shape& shape, Format format) {
  return {take(stored_bytes(shape, format)), shape, format};
}

float* DeviceMemory::hold(const Values& values) {
  const std::span<std::byte> there = allocate(values.size() * sizeof(float));
  device_.write(std::as_bytes(std::span(values)), there);
  return reinterpret_cast<float*>(there.data());
}

Values DeviceMemory::values_at(const float* from, size_t count) const {
  Values values(count);
  device_.read(std::as_bytes(std::span(from, count)), std::as_writable_bytes(std::span(values)));
  return values;
}

Tensor DeviceMemory::on_host(const Tensor& tensor, Buffer& memory) const {
  memory = Buffer(stored_bytes(tensor.shape, tensor.format));
  return {static_cast<float*>(memory.data()), tensor.shape, tensor.format};
}

void DeviceMemory::store(const Values& canonical, const Tensor& target) {
  REQUIRE(static_cast<int64_t>(canonical.size()) == target.shape.count());
  Buffer memory;
  const Tensor here = on_host(target, memory);
  cpu::ThreadTeam team(1);
  layers::cpu::reorder(team, {const_cast<float*>(canonical.data()), target.shape, kPlainFp32},
                       here);
  const auto there = bytes_of(target);
  device_.write(bytes_of(here), {const_cast<std::byte*>(there.data()), there.size()});
}

Values DeviceMemory::load(const Tensor& source) const {
  Buffer memory;
  const Tensor here = on_host(source, memory);
  device_.read(bytes_of(source), memory.as<std::byte>());
  Values canonical(static_cast<size_t>(source.shape.count()));
  cpu::ThreadTeam team(1);
  layers::cpu::reorder(team, here, {canonical.data(), source.shape, kPlainFp32});
  return canonical;
}

void DeviceMemory::check_padding_is_zero(const Tensor& tensor) const {
  const Blocking b = tensor.blocking();
  if (b.channels == b.blocks * b.block) return;
  Buffer memory;
  const Tensor here = on_host(tensor, memory);
  device_.read(bytes_of(tensor), memory.as<std::byte>());
  for (int64_t n = 0; n < b.samples; ++n)
    for (int64_t c = b.channels; c < b.blocks * b.block; ++c)
      for (int64_t p = 0; p < b.area; ++p)
        if (element(here, b.offset(n, c, p)) != 0) {
          FAIL_CHECK("padding lane is not zero: sample " << n << ", lane " << c);
          return;
        }
}

}  // namespace poseidon::test
