#include "comm/wire/codec.h"

#include <algorithm>
#include <cstring>

#include "core/bf16.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {

class Fp32Codec final : public ValueCodec {
 public:
  uint64_t bytes(uint64_t elements) const override { return elements * sizeof(float); }
  bool copies() const override { return true; }
  void encode(std::span<const float> values, std::byte* wire) const override {
    std::memmove(wire, values.data(), values.size_bytes());
  }
  void decode(const std::byte* wire, std::span<float> values) const override {
    std::memcpy(values.data(), wire, values.size_bytes());
  }
};

class Bf16Codec final : public ValueCodec {
 public:
  uint64_t bytes(uint64_t elements) const override { return elements * sizeof(Bf16); }
  void encode(std::span<const float> values, std::byte* wire) const override {
    std::ranges::copy(values, reinterpret_cast<Bf16*>(wire));
  }
  void decode(const std::byte* wire, std::span<float> values) const override {
    std::copy_n(reinterpret_cast<const Bf16*>(wire), values.size(), values.begin());
  }
};

}  // namespace

const ValueCodec& codec_of(WireFormat format) {
  static const Fp32Codec kFp32;
  static const Bf16Codec kBf16;
  if (format == WireFormat::kBf16) return kBf16;
  return kFp32;
}

void add_into(std::span<float> sum, std::span<const float> values) {
  check(sum.size() == values.size(), "only tensors of equal size can be added");
  float* __restrict target = sum.data();
  const float* __restrict source = values.data();
  const size_t count = sum.size();
  for (size_t i = 0; i < count; ++i) target[i] += source[i];
}

}  // namespace poseidon::comm
