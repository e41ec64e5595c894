#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

/// Memory as a process sees it, in bytes.
namespace poseidon {

/// What this process has in memory now (its resident set); 0 if the system does not report it.
size_t resident_memory();

/// What this process may still take: what the system has to give (MemAvailable), but no more than
/// the limits of its control groups (versions 1 and 2) leave, caches of files counted as free, nor
/// than its own limit of addresses (RLIMIT_AS) leaves. The largest size_t if none of them is known.
/// `root` is that of the file system, "/".
size_t available_memory(const std::filesystem::path& root);

/// "412 bytes", "6.1 GB": powers of 1000.
std::string bytes_text(size_t bytes);

}  // namespace poseidon
