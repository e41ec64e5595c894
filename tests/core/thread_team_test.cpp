#include "core/cpu/thread_team.h"

#include <doctest/doctest.h>

#include <array>
#include <ctime>
#include <stdexcept>
#include <thread>

using namespace poseidon;
using cpu::ThreadTeam;

namespace {

/// Runs `count` tasks, and returns how often each one ran. Checks the numbers of the threads.
std::vector<int> runs_of_tasks(ThreadTeam& team, int64_t count) {
  std::vector<std::atomic<int>> runs(static_cast<size_t>(count));
  std::vector<std::atomic<bool>> in_use(static_cast<size_t>(team.threads()));
  std::atomic<bool> shared = false;
  team.run(count, [&](int64_t task, int thread) {
    auto& used = in_use.at(static_cast<size_t>(thread));
    if (used.exchange(true)) shared = true;
    ++runs.at(static_cast<size_t>(task));
    used = false;
  });
  CHECK_FALSE(shared);
  return {runs.begin(), runs.end()};
}

/// Whether all threads run tasks of one call. Repeats the call for at most ten seconds, because
/// other processes may use the cores.
bool uses_all_threads(ThreadTeam& team) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  std::atomic<int> started = 0;
  while (started < team.threads() && std::chrono::steady_clock::now() < end) {
    started = 0;
    team.run(team.threads(), [&](int64_t, int) {
      const auto give_up = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
      ++started;
      while (started < team.threads() && std::chrono::steady_clock::now() < give_up)
        std::this_thread::yield();
      if (started < team.threads()) --started;
    });
  }
  return started == team.threads();
}

void check_ranges(int threads, int64_t count, int64_t grain) {
  ThreadTeam team(threads);
  std::vector<std::atomic<int>> visits(static_cast<size_t>(count));
  std::atomic<int> ranges = 0;
  std::atomic<bool> aligned = true;
  team.run_ranges(count, grain, [&](int64_t first, int64_t end, int) {
    ++ranges;
    if (first % grain != 0 || end <= first || end > count) aligned = false;
    for (int64_t i = first; i < end; ++i) ++visits.at(static_cast<size_t>(i));
  });
  CAPTURE(threads);
  CAPTURE(count);
  CAPTURE(grain);
  CHECK(aligned);
  CHECK(ranges <= std::min<int64_t>(8 * threads, (count + grain - 1) / grain));
  CHECK(std::ranges::all_of(visits, [](int times) { return times == 1; }));
}

}  // namespace

TEST_CASE("a thread team runs each task once, on threads with different numbers") {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadTeam team(threads);
    CHECK(team.threads() == threads);
    for (const int64_t count : {0, 1, 2, 3, 7, 8, 9, 100, 1000}) {
      const auto runs = runs_of_tasks(team, count);
      CHECK(std::ranges::count(runs, 1) == count);
    }
  }
}

TEST_CASE("a thread team uses several threads at a time") {
  ThreadTeam team(3);
  CHECK(uses_all_threads(team));
}

TEST_CASE("a thread team runs a single task in the caller") {
  ThreadTeam team(4);
  const auto caller = std::this_thread::get_id();
  for (int i = 0; i < 100; ++i)
    team.run(1, [&](int64_t, int thread) {
      CHECK(thread == 0);
      CHECK(std::this_thread::get_id() == caller);
    });
}

TEST_CASE("a thread team divides ranges at multiples of the grain") {
  for (const int threads : {1, 2, 5})
    for (const int64_t count : {0, 1, 15, 16, 17, 100, 1001})
      for (const int64_t grain : {1, 16, 64}) check_ranges(threads, count, grain);
}

TEST_CASE("a thread team passes an exception of a task to the caller") {
  ThreadTeam team(3);
  for (int64_t bad = 0; bad < 40; ++bad) {
    const auto fail = [&](int64_t task, int) {
      if (task == bad) throw std::runtime_error("task " + std::to_string(task));
    };
    CHECK_THROWS_WITH_AS(team.run(40, fail), ("task " + std::to_string(bad)).c_str(),
                         std::runtime_error);
  }
  CHECK_THROWS_AS(team.run(40, [](int64_t, int) { throw std::logic_error("each"); }),
                  std::logic_error);
  CHECK(std::ranges::count(runs_of_tasks(team, 40), 1) == 40);
}

TEST_CASE("a thread team runs a call within a task in the task's thread") {
  ThreadTeam team(3);
  std::atomic<int> inner = 0, elsewhere = 0;
  team.run(30, [&](int64_t, int thread) {
    const auto id = std::this_thread::get_id();
    team.run(10, [&](int64_t, int own) {
      ++inner;
      if (own != thread || std::this_thread::get_id() != id) ++elsewhere;
    });
  });
  CHECK(inner == 300);
  CHECK(elsewhere == 0);
}

TEST_CASE("several threads may call a thread team at the same time") {
  ThreadTeam team(3);
  std::atomic<int64_t> sum = 0;
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < 3; ++i)
      callers.emplace_back([&] {
        for (int call = 0; call < 300; ++call)
          team.run(10, [&](int64_t task, int) { sum += task; });
      });
  }
  CHECK(sum == 3 * 300 * 45);
}

TEST_CASE("a thread team runs many small calls, with plain data of the caller") {
  ThreadTeam team(4);
  std::vector<int64_t> values(64), next(64);
  for (int call = 0; call < 5000; ++call) {
    team.run(64, [&](int64_t task, int) {
      const auto i = static_cast<size_t>(task);
      next[i] = values[(i + 1) % 64] + 1;
    });
    values.swap(next);
  }
  CHECK(std::ranges::count(values, 5000) == 64);
}

TEST_CASE("the helpers of a thread team sleep between calls, and wake for a call") {
  ThreadTeam team(3);
  for (int i = 0; i < 3; ++i) {
    CHECK(uses_all_threads(team));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const clock_t begin = clock();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(clock() - begin < CLOCKS_PER_SEC / 100);
  }
}
