#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/data_type.h"

namespace poseidon::comm {

/// The encoding of values on the wire.
class Codec {
 public:
  virtual ~Codec() = default;

  /// Bytes of this many encoded values.
  virtual uint64_t bytes(uint64_t elements) const = 0;
  /// Whether the encoded values are the floats themselves. Then they may be sent from, and received
  /// into, the memory of the floats.
  virtual bool copies() const = 0;
  /// Encodes to `wire`, which has bytes(values.size()) bytes. It may be the memory of the values.
  virtual void encode(std::span<const float> values, std::byte* wire) const = 0;
  virtual void decode(const std::byte* wire, std::span<float> values) const = 0;
};

/// The codec of a wire dtype: "fp32", unchanged, or "bf16" (core/bf16.h).
const Codec& codec_of(DataType dtype);

/// sum += values.
void add_into(std::span<float> sum, std::span<const float> values);

}  // namespace poseidon::comm
