#include "core/control_groups.h"

#include <fstream>
#include <sstream>
#include <string>

namespace poseidon {

namespace fs = std::filesystem;

namespace {

/// Adds a group and its parents, whose limits also apply to it. Inside a container the parents may
/// be missing, because the hierarchy is mounted from the container's own group.
void add_with_those_around(const fs::path& mount, fs::path group, int version,
                           std::vector<ControlGroup>& groups) {
  for (group = group.relative_path(); !group.empty(); group = group.parent_path())
    groups.push_back({mount / group, version});
  groups.push_back({mount, version});
}

bool names_controller(const std::string& controllers, std::string_view wanted) {
  std::istringstream names(controllers);
  for (std::string name; std::getline(names, name, ',');)
    if (name == wanted) return true;
  return false;
}

}  // namespace

std::vector<ControlGroup> control_groups(const fs::path& root, std::string_view controller) {
  const fs::path mounts = root / "sys/fs/cgroup";
  std::vector<ControlGroup> groups;
  std::ifstream lines(root / "proc/self/cgroup");
  std::string number, controllers, group;
  while (std::getline(lines, number, ':') && std::getline(lines, controllers, ':') &&
         std::getline(lines, group)) {
    if (controllers.empty())
      for (const fs::path& mount : {mounts, mounts / "unified"})
        add_with_those_around(mount, group, 2, groups);
    else if (names_controller(controllers, controller))
      for (const fs::path& mount : {mounts / controller, mounts / controllers})
        add_with_those_around(mount, group, 1, groups);
  }
  return groups;
}

}  // namespace poseidon
