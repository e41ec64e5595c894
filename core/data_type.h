#pragma once

#include <cstddef>
#include <cstdint>

namespace poseidon {

/// The type of stored numbers, in memory and on the wire.
enum class DataType : uint8_t {
  kFp32,
  kBf16,  ///< core/bf16.h
};

/// Bytes of one number.
constexpr size_t bytes_of(DataType type) { return type == DataType::kBf16 ? 2 : 4; }

}  // namespace poseidon
