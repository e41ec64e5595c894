#pragma once

#include <filesystem>

/// The number of processor cores that the system allows this process to use.
namespace poseidon {

/// The number of cores that this process may run on, or its CPU quota (cpu_quota()), rounded down,
/// if that is smaller. At least 1. With more threads than the quota allows, the system would pause
/// some threads, and the other threads would wait for them.
int available_cores();

/// The smallest CPU quota, in cores, of the control groups (versions 1 and 2) that contain this
/// process; infinity if there is none. `root` is the root of the file system, usually "/".
double cpu_quota(const std::filesystem::path& root);

}  // namespace poseidon
