#include "core/cpu_usage.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <unistd.h>

#include "core/error.h"
#include "tests/core/fake_system_files.h"

using namespace poseidon;

namespace {

/// The first CPU core on which this process may run.
int a_core() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  REQUIRE(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
  int core = 0;
  while (!CPU_ISSET(core, &allowed)) ++core;
  return core;
}

/// Content of /proc/stat with these times of one core, in seconds.
std::string stat_of(int core, double user, double system, double idle) {
  const auto ticks = [](double seconds) {
    return std::to_string(
        static_cast<int64_t>(seconds * static_cast<double>(sysconf(_SC_CLK_TCK))));
  };
  return text("cpu  1 2 3 4 5 6 7 8\ncpu", core, " ", ticks(user), " 0 ", ticks(system), " ",
              ticks(idle), " 0 0 0 900 0 0\ncpu", CPU_SETSIZE + 7,
              " 9 9 9 9 9 9 9 9\nintr 12 13\n");
}

}  // namespace

TEST_CASE("CpuUsageMeter reports the cores that other processes use, and idle cores") {
  const int core = a_core();
  FakeSystemFiles system("0::/\n");
  system.add("proc/stat", stat_of(core, 1000, 100, 5000));
  CpuUsageMeter meter(system.root());
  CHECK(!meter.since_last().has_value());
  system.add("proc/stat", stat_of(core, 1060, 110, 5030));
  const std::optional<CpuUsage> use = meter.since_last();
  REQUIRE(use.has_value());
  CHECK(use->others == doctest::Approx(0.7).epsilon(0.01));
  CHECK(use->idle == doctest::Approx(0.3).epsilon(0.01));
}

TEST_CASE("CpuUsageMeter does not count this process among the others") {
  const int core = a_core();
  FakeSystemFiles system("0::/\n");
  system.add("proc/stat", stat_of(core, 1000, 100, 5000));
  CpuUsageMeter meter(system.root());
  const clock_t begin = clock();
  while (clock() - begin < CLOCKS_PER_SEC / 5) continue;
  system.add("proc/stat", stat_of(core, 1000.2, 100, 5000.2));
  const std::optional<CpuUsage> use = meter.since_last();
  REQUIRE(use.has_value());
  CHECK(use->others < 0.1);
}

TEST_CASE("CpuUsageMeter reports no value if the system has no /proc/stat") {
  CpuUsageMeter meter("/does/not/exist");
  CHECK(!meter.since_last().has_value());
}
