#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace poseidon::comm {

/// The wire format of gradients and factors.
enum class WireFormat : uint8_t {
  kFp32,
  kBf16,  ///< core/bf16.h
};

/// The encoding of values on the wire.
class Codec {
 public:
  virtual ~Codec() = default;

  /// Bytes of this many encoded values.
  virtual uint64_t bytes(uint64_t elements) const = 0;
  /// Whether the encoded values are the floats themselves. Then they may be sent from, and received
  /// into, the memory of the floats.
  virtual bool copies() const { return false; }
  virtual void decode(const std::byte* wire, std::span<float> values) const = 0;
};

/// An encoding of each value alone.
class ValueCodec : public Codec {
 public:
  /// Encodes to `wire`, which has bytes(values.size()) bytes. It may be the memory of the values.
  virtual void encode(std::span<const float> values, std::byte* wire) const = 0;
};

/// The codec of a wire format: "fp32", unchanged, or "bf16" (core/bf16.h).
const ValueCodec& codec_of(WireFormat format);

/// sum += values.
void add_into(std::span<float> sum, std::span<const float> values);

}  // namespace poseidon::comm
