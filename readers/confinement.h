#pragma once

#include <cstdint>
#include <filesystem>

namespace poseidon::readers {

/// What a reader may take of memory that is its own; files that it maps do not count.
inline constexpr uint64_t kMostMemory = uint64_t{2} << 30;

/// Takes from this process what reading `path` does not need: writing files, starting programs,
/// sockets, signals to others, memory beyond kMostMemory, and processor time beyond a minute and a
/// second for each MiB of the file. It ends with the process that started it. Throws RunError.
void confine(const std::filesystem::path& path);

}  // namespace poseidon::readers
