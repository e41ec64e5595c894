#include "core/cpu/spin_policy.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <thread>
#include <vector>

#include "core/cores.h"
#include "tests/support/other_processes.h"

using namespace poseidon;
using namespace std::chrono_literals;

namespace {

/// CPU seconds of parallel regions two milliseconds apart. Threads that spin between regions add to
/// it.
double seconds_of_waiting() {
  const clock_t begin = clock();
  for (int i = 0; i < 200; ++i) {
    std::atomic<int> threads = 0;
#pragma omp parallel num_threads(2)
    ++threads;
    REQUIRE(threads == 2);
    std::this_thread::sleep_for(2ms);
  }
  return static_cast<double>(clock() - begin) / CLOCKS_PER_SEC;
}

}  // namespace

TEST_CASE("a thread team does not spin while other processes use the cores") {
  const cpu::SpinPolicy waits;
  const OtherProcesses busy(available_cores());
  std::this_thread::sleep_for(1s);
  CHECK(seconds_of_waiting() < 0.15);
}
