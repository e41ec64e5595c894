#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace poseidon::comm {

/// The wire format of gradients and factors.
enum class WireFormat : uint8_t {
  kFp32,
  kBf16,  ///< core/bf16.h
  kInt8,  ///< gradients as blocks of integers (comm/wire/integer_blocks.h), factors as bf16
};

/// The encoding of values on the wire.
class Codec {
 public:
  virtual ~Codec() = default;

  /// Bytes of this many encoded values. If the length depends on the values, a usual length.
  virtual uint64_t bytes(uint64_t elements) const = 0;
  /// Whether an encoding of this many values may have `length` bytes.
  virtual bool permits(uint64_t length, uint64_t elements) const {
    return length == bytes(elements);
  }
  /// Whether bytes of a permitted length encode this many values.
  virtual bool is_valid(std::span<const std::byte>, uint64_t) const { return true; }
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

/// The codec of single values: "fp32", unchanged, or "bf16". For "int8", the codec of factors.
const ValueCodec& codec_of(WireFormat format);
/// The codecs of integer blocks: of one shard's gradient or of a sum, with one byte for each
/// integer, and of the exact sum of several shards. Its integers have 1 to 8 bytes, usually 2.
const Codec& rounded_codec();
const Codec& exact_codec();

/// sum += values.
void add_into(std::span<float> sum, std::span<const float> values);

}  // namespace poseidon::comm
