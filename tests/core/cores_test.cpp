#include "core/cores.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <stdlib.h>

#include <cmath>
#include <fstream>
#include <string>
#include <thread>

using namespace poseidon;
namespace fs = std::filesystem;

namespace {

/// The root of a made-up system: its files of control groups.
class System {
 public:
  explicit System(const std::string& groups) {
    std::string name = (fs::temp_directory_path() / "poseidon-cores-XXXXXX").string();
    root_ = ::mkdtemp(name.data());
    add("proc/self/cgroup", groups);
  }
  ~System() {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  System(const System&) = delete;
  System& operator=(const System&) = delete;

  System& add(const std::string& file, const std::string& content) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << content;
    return *this;
  }
  double quota() const { return cpu_quota(root_); }

 private:
  fs::path root_;
};

}  // namespace

TEST_CASE("a process without control groups, or without a quota, has no limit") {
  CHECK(std::isinf(cpu_quota("/does/not/exist")));
  CHECK(std::isinf(System("0::/\n").quota()));
  CHECK(std::isinf(System("0::/job\n").add("sys/fs/cgroup/job/cpu.max", "max 100000\n").quota()));
  CHECK(std::isinf(System("1:cpu:/job\n")
                       .add("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n")
                       .add("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n")
                       .quota()));
}

TEST_CASE("the smallest quota of all enclosing control groups counts") {
  System system("0::/slice/job\n");
  system.add("sys/fs/cgroup/slice/job/cpu.max", "400000 100000\n");
  CHECK(system.quota() == 4.0);
  system.add("sys/fs/cgroup/slice/cpu.max", "150000 100000\n");
  CHECK(system.quota() == 1.5);
}

TEST_CASE("a container sees its own group at the root of the hierarchy") {
  CHECK(System("0::/host/path/of/the/container\n")
            .add("sys/fs/cgroup/cpu.max", "200000 100000\n")
            .quota() == 2.0);
}

TEST_CASE("quotas of version 1 count, beside hierarchies of other controllers") {
  CHECK(System("9:name=systemd:/\n3:cpuset:/job\n2:cpu,cpuacct:/job\n0::/\n")
            .add("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "50000\n")
            .add("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "25000\n")
            .quota() == 2.0);
}

TEST_CASE("the cores that a process may run on are counted, not those of the machine") {
  // In a thread of its own: what it may run on is not the other tests' matter.
  std::thread([] {
    CHECK(available_cores() >= 1);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK(available_cores() == 1);
  }).join();
}
