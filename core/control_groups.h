#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace poseidon {

/// A control group that contains this process. The names of its files depend on the version.
struct ControlGroup {
  std::filesystem::path folder;
  int version = 2;
};

/// All control groups (versions 1 and 2) that contain this process and may limit what `controller`
/// ("cpu", "memory") gives out, each with those around it. Some of the folders may not exist.
/// `root` is that of the file system, "/".
std::vector<ControlGroup> control_groups(const std::filesystem::path& root,
                                         std::string_view controller);

}  // namespace poseidon
