#include "core/cores.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <thread>

namespace poseidon {

namespace fs = std::filesystem;

namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

/// Of two numbers of microseconds; a group without a quota says "max" or -1, which is no number or
/// none above zero.
double cores_of(double quota, double period) {
  return quota > 0 && period > 0 ? quota / period : kUnlimited;
}

/// Version 2: one file, "150000 100000" or "max 100000".
double quota_of_unified_group(const fs::path& group) {
  double quota = 0, period = 0;
  std::ifstream(group / "cpu.max") >> quota >> period;
  return cores_of(quota, period);
}

/// Version 1: two files with a number each.
double quota_of_cpu_group(const fs::path& group) {
  double quota = 0, period = 0;
  std::ifstream(group / "cpu.cfs_quota_us") >> quota;
  std::ifstream(group / "cpu.cfs_period_us") >> period;
  return cores_of(quota, period);
}

/// A group's quota holds for the groups inside it. Inside a container the upper ones may not be
/// there: the hierarchy is mounted from the container's own group on.
template <class QuotaOfGroup>
double least_quota(const fs::path& mount, fs::path group, QuotaOfGroup quota_of_group) {
  double least = quota_of_group(mount);
  for (group = group.relative_path(); !group.empty(); group = group.parent_path())
    least = std::min(least, quota_of_group(mount / group));
  return least;
}

bool names_controller(const std::string& controllers, const std::string& wanted) {
  std::istringstream names(controllers);
  for (std::string name; std::getline(names, name, ',');)
    if (name == wanted) return true;
  return false;
}

}  // namespace

double cpu_quota(const fs::path& root) {
  const fs::path mounts = root / "sys/fs/cgroup";
  double least = kUnlimited;
  std::ifstream groups(root / "proc/self/cgroup");
  std::string number, controllers, group;
  while (std::getline(groups, number, ':') && std::getline(groups, controllers, ':') &&
         std::getline(groups, group)) {
    if (controllers.empty())
      for (const fs::path& mount : {mounts, mounts / "unified"})
        least = std::min(least, least_quota(mount, group, quota_of_unified_group));
    else if (names_controller(controllers, "cpu"))
      for (const fs::path& mount : {mounts / "cpu", mounts / controllers})
        least = std::min(least, least_quota(mount, group, quota_of_cpu_group));
  }
  return least;
}

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int runs_on = sched_getaffinity(0, sizeof set, &set) == 0
                          ? CPU_COUNT(&set)
                          : static_cast<int>(std::thread::hardware_concurrency());
  const double paid = cpu_quota("/");
  return std::max(1, paid < runs_on ? static_cast<int>(paid) : runs_on);
}

}  // namespace poseidon
