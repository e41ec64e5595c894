#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace poseidon::data {

/// Whether `bytes` begin with gzip's magic number.
bool is_gzip(std::span<const std::byte> bytes);

/// Inflates gzip data (one or several members) piece by piece into `sink`. Throws RunError,
/// beginning with `name`, when the data are damaged or cut, or give more than `most` bytes.
void inflate(std::span<const std::byte> bytes, uint64_t most, const std::string& name,
             const std::function<void(std::span<const std::byte>)>& sink);

/// Inflates gzip data into memory, with the same limit and errors.
std::vector<std::byte> inflate(std::span<const std::byte> bytes, uint64_t most,
                               const std::string& name);

}  // namespace poseidon::data
