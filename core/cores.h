#pragma once

#include <filesystem>

/// How many processor cores the system allows this process.
namespace poseidon {

/// The cores that the process may run on, but no more than its control groups' quotas of processor
/// time pay for, rounded down: a thread that has used up its quota holds up its whole team. At
/// least 1.
int available_cores();

/// The smallest quota of processor time, in cores, among the control groups (versions 1 and 2) that
/// contain this process; infinity where there is none. `root` is that of the file system, "/".
double cpu_quota(const std::filesystem::path& root);

}  // namespace poseidon
