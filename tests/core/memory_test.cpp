#include "core/memory.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <limits>
#include <vector>

#include "tests/core/fake_system_files.h"

using namespace poseidon;

namespace {

constexpr size_t kGigabyte = 1000 * 1000 * 1000;

/// A machine with 8 GB of available memory.
FakeSystemFiles& with_memory(FakeSystemFiles& system) {
  return system.add("proc/meminfo",
                    "MemTotal:       16000000 kB\nMemAvailable:    7812500 kB\nBuffers: 1 kB\n");
}

size_t available_with(const std::string& groups,
                      const std::vector<std::pair<std::string, std::string>>& files) {
  FakeSystemFiles system(groups);
  with_memory(system);
  for (const auto& [file, content] : files) system.add("sys/fs/cgroup/" + file, content);
  return available_memory(system.root());
}

}  // namespace

TEST_CASE("without a limit of control groups, the system's available memory counts") {
  CHECK(available_memory("/does/not/exist") == std::numeric_limits<size_t>::max());
  CHECK(available_with("0::/\n", {}) == 8 * kGigabyte);
  CHECK(available_with("0::/job\n", {{"job/memory.max", "max\n"}}) == 8 * kGigabyte);
  CHECK(available_with("4:memory:/job\n", {{"memory/job/memory.limit_in_bytes",
                                            "9223372036854771712\n"}}) == 8 * kGigabyte);
}

TEST_CASE("available memory is a control group's limit minus its use without file caches") {
  CHECK(available_with("0::/slice/job\n",
                       {{"slice/memory.max", "4000000000\n"},
                        {"slice/memory.current", "3000000000\n"},
                        {"slice/memory.stat",
                         "anon 1\nfile 2\ninactive_file 400000000\nactive_file 100000000\n"},
                        {"slice/job/memory.max", "6000000000\n"},
                        {"slice/job/memory.current", "10\n"}}) == 1500 * kGigabyte / 1000);
  CHECK(available_with("4:memory:/job\n",
                       {{"memory/job/memory.limit_in_bytes", "4000000000\n"},
                        {"memory/job/memory.usage_in_bytes", "3000000000\n"},
                        {"memory/job/memory.stat",
                         "inactive_file 7\ntotal_inactive_file 1000000000\n"}}) == 2 * kGigabyte);
}

TEST_CASE("a control group above its limit has no available memory") {
  CHECK(available_with("0::/\n", {{"memory.max", "1000\n"}, {"memory.current", "2000\n"}}) == 0);
}

TEST_CASE("a limit of the address space limits the available memory") {
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
  // The whole address space: more than a process uses, also with a sanitizer.
  rlimit lower = before;
  lower.rlim_cur = rlim_t{1} << 47;
  REQUIRE(setrlimit(RLIMIT_AS, &lower) == 0);
  const size_t available = available_memory("/does/not/exist");
  REQUIRE(setrlimit(RLIMIT_AS, &before) == 0);
  CHECK(available < size_t{1} << 47);
  CHECK(available > 0);
}

TEST_CASE("resident_memory() counts memory that the process has touched") {
  const size_t before = resident_memory();
  CHECK(before > 0);
  const std::vector<char> touched(size_t{64} << 20, 'x');
  CHECK(resident_memory() >= before + (touched.size() * 3 / 4));
}

TEST_CASE("bytes_text() selects a suitable unit") {
  CHECK(bytes_text(0) == "0 bytes");
  CHECK(bytes_text(999) == "999 bytes");
  CHECK(bytes_text(1000) == "1.0 kB");
  CHECK(bytes_text(999949) == "999.9 kB");
  CHECK(bytes_text(999999) == "1.0 MB");
  CHECK(bytes_text(6123456789) == "6.1 GB");
  CHECK(bytes_text(size_t{1} << 60) == "1152.9 PB");
}
