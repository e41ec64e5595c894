#pragma once

#include <cstddef>
#include <cstdint>

namespace poseidon {

/// What numbers are stored as, in memory and on the wire.
enum class DataType : uint8_t {
  kFp32,
  kBf16,  ///< core/bf16.h
};

/// Of one number.
constexpr size_t bytes_of(DataType type) { return type == DataType::kBf16 ? 2 : 4; }

}  // namespace poseidon
