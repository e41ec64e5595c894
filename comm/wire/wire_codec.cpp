#include "comm/wire/wire_codec.h"

#include <algorithm>

#include "core/bf16.h"
#include "core/error.h"

namespace poseidon::comm {

void to_wire(DataType number, std::span<const float> values, std::byte* wire) {
  if (number == DataType::kFp32) {
    std::memcpy(wire, values.data(), values.size_bytes());
    return;
  }
  std::ranges::copy(values, reinterpret_cast<Bf16*>(wire));
}

void from_wire(DataType number, const std::byte* wire, std::span<float> values) {
  if (number == DataType::kFp32) {
    std::memcpy(values.data(), wire, values.size_bytes());
    return;
  }
  std::copy_n(reinterpret_cast<const Bf16*>(wire), values.size(), values.begin());
}

void add_into(std::span<float> sum, std::span<const float> values) {
  check(sum.size() == values.size(), "only tensors of equal size can be added");
  float* __restrict target = sum.data();
  const float* __restrict source = values.data();
  const size_t count = sum.size();
  for (size_t i = 0; i < count; ++i) target[i] += source[i];
}

}  // namespace poseidon::comm
