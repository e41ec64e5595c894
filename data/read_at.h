#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace poseidon::data {

/// Reads `out.size()` bytes at an offset of a file. Throws if the bytes cannot be read.
using ReadAt = std::function<void(uint64_t offset, std::span<std::byte> out)>;

}  // namespace poseidon::data
