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

/// Returns the next bytes of a file, which stay until the next call; none at its end.
using ByteSource = std::function<std::span<const std::byte>()>;
using ByteSink = std::function<void(std::span<const std::byte>)>;

/// Inflates gzip data (one or several members) piece by piece from `source` into `sink`. Throws
/// RunError, beginning with `name`, when the data are damaged or cut, or give more than `most`
/// bytes.
void inflate(const ByteSource& source, uint64_t most, const std::string& name,
             const ByteSink& sink);
/// Inflates bytes in memory, with the same limit and errors.
void inflate(std::span<const std::byte> bytes, uint64_t most, const std::string& name,
             const ByteSink& sink);
std::vector<std::byte> inflate(std::span<const std::byte> bytes, uint64_t most,
                               const std::string& name);

}  // namespace poseidon::data
