#pragma once

#include <cstdint>
#include <filesystem>

namespace poseidon::readers {

/// Limit of a reader's private memory. Mapped files do not count.
inline constexpr uint64_t kMaxMemoryBytes = uint64_t{2} << 30;

/// Restricts this process to the operations that reading `path` needs. The process can no longer
/// write files. On a kernel with seccomp filters, it also cannot start processes, open sockets or
/// signal other processes. The limit of memory is kMaxMemoryBytes, or none in builds with
/// sanitizers. The limit of processor time is one minute, plus one second per MiB of the file or
/// folder. The kernel kills the process when its parent ends. Throws RunError if a limit or the
/// filter cannot be set.
void enter_sandbox(const std::filesystem::path& path);

}  // namespace poseidon::readers
