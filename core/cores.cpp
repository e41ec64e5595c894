#include "core/cores.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <thread>

#include "core/control_groups.h"

namespace poseidon {

namespace fs = std::filesystem;

namespace {

constexpr double kNoQuota = std::numeric_limits<double>::infinity();

/// Cores for a quota and a period, both in microseconds. For a group without a quota, `quota` is 0
/// (version 2: "max" is not a number) or -1 (version 1).
double cores_of(double quota, double period) {
  return quota > 0 && period > 0 ? quota / period : kNoQuota;
}

double quota_of(const ControlGroup& group) {
  double quota = 0, period = 0;
  if (group.version == 2) {  // one file, "150000 100000" or "max 100000"
    std::ifstream(group.folder / "cpu.max") >> quota >> period;
  } else {
    std::ifstream(group.folder / "cpu.cfs_quota_us") >> quota;
    std::ifstream(group.folder / "cpu.cfs_period_us") >> period;
  }
  return cores_of(quota, period);
}

}  // namespace

double cpu_quota(const fs::path& root) {
  double least = kNoQuota;
  for (const ControlGroup& group : control_groups(root, "cpu"))
    least = std::min(least, quota_of(group));
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
