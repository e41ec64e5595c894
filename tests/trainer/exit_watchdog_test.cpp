// Exit watchdog: a process must exit even if one of its threads hangs.

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>

#include "trainer/member/exit_watchdog.h"
#include "trainer/member/progress.h"

using namespace poseidon::trainer;
using namespace std::chrono_literals;

namespace {

/// Waits up to ten seconds, because the machine may be busy.
bool soon(const std::function<bool()>& holds) {
  for (int i = 0; i < 1000 && !holds(); ++i) std::this_thread::sleep_for(10ms);
  return holds();
}

}  // namespace

TEST_CASE("the watchdog fires after its timeout and passes the reason") {
  std::atomic<int> given_up = 0;
  std::string why;
  ExitWatchdog watch([&](const std::string& reason) {
    why = reason;
    ++given_up;
  });
  watch.arm(1h, "something else");
  watch.arm(10ms, "the end");
  REQUIRE(soon([&] { return given_up == 1; }));
  CHECK(why == "the end");
}

TEST_CASE("the watchdog does not fire if it is disarmed or destroyed in time") {
  std::atomic<int> given_up = 0;
  {
    ExitWatchdog watch([&](const std::string&) { ++given_up; });
    watch.arm(50ms, "the end");
    watch.disarm();
    std::this_thread::sleep_for(100ms);
    watch.arm(1h, "the end");
  }
  ExitWatchdog nothing(nullptr);
  nothing.arm(0ms, "the end");
  CHECK(given_up == 0);
}

TEST_CASE("the watchdog does not count time in which the process was stopped") {
  std::array<int, 2> end{};
  REQUIRE(::pipe(end.data()) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ExitWatchdog watch([](const std::string&) { ::_exit(1); });
    watch.arm(2s, "the end");
    char ignored = 0;
    ::_exit(::read(end[0], &ignored, 1) == 1 ? 0 : 2);
  }
  std::this_thread::sleep_for(100ms);
  ::kill(child, SIGSTOP);
  std::this_thread::sleep_for(2500ms);
  ::kill(child, SIGCONT);
  std::this_thread::sleep_for(200ms);
  CHECK(::write(end[1], "e", 1) == 1);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  ::close(end[0]);
  ::close(end[1]);
}

TEST_CASE("the progress reporter sends new activities at once and limits repeated ones") {
  std::vector<poseidon::comm::Progress> told;
  ProgressReporter progress([&](const poseidon::comm::Progress& each) { told.push_back(each); });
  for (int batch = 0; batch < 100; ++batch)
    progress.report_activity("testing", batch, 100, "batches");
  progress.waits("sums");
  progress.report_activity("testing", 100, 100, "batches");
  REQUIRE(told.size() >= 3);
  CHECK(told.size() < 10);
  CHECK(told[0].doing == "testing");
  CHECK(told[told.size() - 2].doing == "waiting for sums");
  CHECK(told[told.size() - 2].waits);
  CHECK(told.back().done == 100);
}
