#include "core/cores.h"

#include <doctest/doctest.h>
#include <sched.h>

#include <cmath>
#include <thread>

#include "tests/core/fake_system_files.h"

using namespace poseidon;

namespace {

double quota_of(const FakeSystemFiles& system) { return cpu_quota(system.root()); }

}  // namespace

TEST_CASE("a process without control groups or without a quota has no CPU limit") {
  CHECK(std::isinf(cpu_quota("/does/not/exist")));
  CHECK(std::isinf(quota_of(FakeSystemFiles("0::/\n"))));
  CHECK(std::isinf(
      quota_of(FakeSystemFiles("0::/job\n").add("sys/fs/cgroup/job/cpu.max", "max 100000\n"))));
  CHECK(std::isinf(quota_of(FakeSystemFiles("1:cpu:/job\n")
                                .add("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n")
                                .add("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n"))));
}

TEST_CASE("the CPU limit is the smallest quota of all enclosing control groups") {
  FakeSystemFiles system("0::/slice/job\n");
  system.add("sys/fs/cgroup/slice/job/cpu.max", "400000 100000\n");
  CHECK(quota_of(system) == 4.0);
  system.add("sys/fs/cgroup/slice/cpu.max", "150000 100000\n");
  CHECK(quota_of(system) == 1.5);
}

TEST_CASE("a container's quota is read from the root of the hierarchy") {
  CHECK(quota_of(FakeSystemFiles("0::/host/path/of/the/container\n")
                     .add("sys/fs/cgroup/cpu.max", "200000 100000\n")) == 2.0);
}

TEST_CASE("cgroup v1 quotas are read, also with hierarchies of other controllers") {
  CHECK(quota_of(FakeSystemFiles("9:name=systemd:/\n3:cpuset:/job\n2:cpu,cpuacct:/job\n0::/\n")
                     .add("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "50000\n")
                     .add("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "25000\n")) == 2.0);
}

TEST_CASE("available_cores() counts the cores of the process's CPU affinity, not of the machine") {
  // In a separate thread, because the thread changes its CPU affinity.
  std::thread([] {
    CHECK(available_cores() >= 1);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK(available_cores() == 1);
  }).join();
}
