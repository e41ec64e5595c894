#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace poseidon {

/// A control group (cgroup) that contains this process. The version determines the names of the
/// files in `folder`.
struct ControlGroup {
  std::filesystem::path folder;
  int version = 2;
};

/// All control groups (versions 1 and 2) that contain this process and may limit `controller`
/// ("cpu", "memory"), including their parent groups. Some of the folders may not exist. `root` is
/// the root of the file system, usually "/".
std::vector<ControlGroup> control_groups(const std::filesystem::path& root,
                                         std::string_view controller);

}  // namespace poseidon
