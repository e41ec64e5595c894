#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace poseidon::data {

/// Returns true if `bytes` begins with gzip's magic number.
bool is_gzip(std::span<const std::byte> bytes);

/// Returns the next bytes of a file, valid until the next call; an empty span at the end.
using ByteSource = std::function<std::span<const std::byte>()>;
using ByteSink = std::function<void(std::span<const std::byte>)>;

/// Decompresses gzip data (one or more members) from `source` into `sink`, one buffer at a time.
/// Throws RunError whose message begins with `name` if the data are damaged, truncated or larger
/// than `most` bytes when decompressed.
void inflate(const ByteSource& source, uint64_t most, const std::string& name,
             const ByteSink& sink);
/// Decompress gzip data in memory. Limit and errors are those of the function with a `source`.
void inflate(std::span<const std::byte> bytes, uint64_t most, const std::string& name,
             const ByteSink& sink);
std::vector<std::byte> inflate(std::span<const std::byte> bytes, uint64_t most,
                               const std::string& name);

}  // namespace poseidon::data
