#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "core/data_type.h"

/// The codecs of values on the wire: "fp32", unchanged, or "bf16" (core/bf16.h).
namespace poseidon::comm {

/// Convert between fp32 and a wire dtype; `wire` holds values.size() * bytes_of(number) bytes.
void to_wire(DataType number, std::span<const float> values, std::byte* wire);
void from_wire(DataType number, const std::byte* wire, std::span<float> values);

/// sum += values.
void add_into(std::span<float> sum, std::span<const float> values);

}  // namespace poseidon::comm
