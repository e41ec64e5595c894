#include <doctest/doctest.h>
#include <sched.h>
#include <unistd.h>

#include <ctime>
#include <thread>

#include "core/cores.h"
#include "core/cpu/thread_team.h"
#include "tests/support/other_processes.h"

using namespace poseidon;
using namespace std::chrono_literals;

namespace {

/// The system's ID of the team's only helper.
pid_t id_of_helper(cpu::ThreadTeam& team) {
  std::atomic<pid_t> id = 0;
  while (id == 0)
    team.run(2, [&](int64_t, int thread) {
      if (thread == 1) id = gettid();
      std::this_thread::sleep_for(1ms);
    });
  return id;
}

/// The system runs the thread only while its core has nothing else to do.
void run_last(pid_t thread) {
  const sched_param none{};
  REQUIRE(sched_setscheduler(thread, SCHED_IDLE, &none) == 0);
}

/// Seconds of `calls` calls with two small tasks each.
double seconds_of_calls(cpu::ThreadTeam& team, int calls) {
  const auto begin = std::chrono::steady_clock::now();
  for (int call = 0; call < calls; ++call)
    team.run(2, [](int64_t, int) {
      for (int i = 0; i < 5000; ++i) asm volatile("");  // the compiler keeps this loop
    });
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

TEST_CASE("a call does not wait for a helper that gets no core") {
  cpu::ThreadTeam team(2);
  run_last(id_of_helper(team));
  const OtherProcesses busy(2 * available_cores());
  std::this_thread::sleep_for(100ms);
  CHECK(seconds_of_calls(team, 2000) < 5);
}

TEST_CASE("the helpers of a team sleep between calls while other processes use the cores") {
  cpu::ThreadTeam team(2);
  const OtherProcesses busy(available_cores());
  const clock_t begin = clock();
  for (int i = 0; i < 200; ++i) {
    seconds_of_calls(team, 1);
    std::this_thread::sleep_for(2ms);
  }
  CHECK(static_cast<double>(clock() - begin) / CLOCKS_PER_SEC < 0.15);
}
