#include "trainer/run/device_threads.h"

#include <doctest/doctest.h>

#include <atomic>
#include <set>

#include "core/error.h"
#include "tests/support/error_of.h"

using namespace poseidon;
using namespace poseidon::trainer;

TEST_CASE("each device has one thread, and device 0 uses the caller's") {
  DeviceThreads threads(3);
  std::vector<std::thread::id> first(3), again(3);
  threads.run([&](size_t device) { first[device] = std::this_thread::get_id(); });
  threads.run([&](size_t device) { again[device] = std::this_thread::get_id(); });
  CHECK(first == again);
  CHECK(first[0] == std::this_thread::get_id());
  CHECK(std::set(first.begin(), first.end()).size() == 3);
  std::atomic<int> others = 0;
  threads.run([&](size_t device) { others += device > 0 ? 1 : 100; }, 1);
  CHECK(others == 2);
}

TEST_CASE("devices run concurrently") {
  DeviceThreads threads(2);
  std::atomic<int> here = 0;
  threads.run([&](size_t) {
    ++here;
    while (here < 2) std::this_thread::yield();
  });
  CHECK(here == 2);
}

TEST_CASE("the first error is thrown, and threads that wait for the failed device are notified") {
  for (const size_t failing : {0, 2}) {
    DeviceThreads threads(3);
    std::atomic<bool> failed = false;
    std::atomic<int> told = 0;
    threads.on_failure([&](const std::string& why) {
      ++told;
      if (why == "this one") failed = true;
    });
    const auto task = [&](size_t device) {
      if (device == failing) throw RunError("this one");
      while (!failed) std::this_thread::yield();
      throw RunError("that one is lost");
    };
    CHECK(error_of<RunError>([&] { threads.run(task); }) == "this one");
    CHECK(told == 3);
    threads.run([](size_t) {});  // the error is cleared
  }
}
