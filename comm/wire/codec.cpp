#include "comm/wire/codec.h"

#include <algorithm>
#include <cstring>

#include "comm/wire/integer_blocks.h"
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

class IntegerCodec final : public Codec {
 public:
  IntegerCodec(uint64_t usual_width, uint64_t most) : usual_width_(usual_width), most_(most) {}

  uint64_t bytes(uint64_t elements) const override {
    return bytes_of_blocks(elements, usual_width_);
  }
  bool permits(uint64_t length, uint64_t elements) const override {
    return length >= bytes_of_blocks(elements, 1) && length <= bytes_of_blocks(elements, most_);
  }
  bool is_valid(std::span<const std::byte> wire, uint64_t elements) const override {
    return length_of_blocks(wire, elements) == wire.size();
  }
  void decode(const std::byte* wire, std::span<float> values) const override {
    decode_blocks(wire, values);
  }

 private:
  const uint64_t usual_width_, most_;  ///< bytes of one integer
};

}  // namespace

const ValueCodec& codec_of(WireFormat format) {
  static const Fp32Codec kFp32;
  static const Bf16Codec kBf16;
  return format == WireFormat::kFp32 ? static_cast<const ValueCodec&>(kFp32) : kBf16;
}

const Codec& rounded_codec() {
  static const IntegerCodec kRounded(1, 1);
  return kRounded;
}

const Codec& exact_codec() {
  static const IntegerCodec kExact(2, kMaxIntegerBytes);
  return kExact;
}

void add_into(std::span<float> sum, std::span<const float> values) {
  check(sum.size() == values.size(), "only tensors of equal size can be added");
  float* __restrict target = sum.data();
  const float* __restrict source = values.data();
  const size_t count = sum.size();
  for (size_t i = 0; i < count; ++i) target[i] += source[i];
}

}  // namespace poseidon::comm
