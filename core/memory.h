#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

/// Memory use of this process, in bytes.
namespace poseidon {

/// Bytes of this process in physical memory (resident set); 0 if the system does not report it.
size_t resident_memory();

/// Bytes that this process can still allocate: the minimum of these values, as far as they are
/// known:
/// * the memory that the system has available (MemAvailable)
/// * the free memory of each control group (versions 1 and 2) that contains this process, with file
///   caches counted as free
/// * the free address space of this process (RLIMIT_AS)
///
/// The largest size_t if no value is known. `root` is the root of the file system, usually "/".
size_t available_memory(const std::filesystem::path& root);

/// A size as text, in powers of 1000: "412 bytes", "6.1 GB".
std::string bytes_text(size_t bytes);

}  // namespace poseidon
