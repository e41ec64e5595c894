// Reports of a process to a service manager. A process that hangs sends no report.

#include "trainer/member/service_manager_reporter.h"

#include <doctest/doctest.h>

#include <atomic>

#include "core/inbox.h"
#include "tests/support/service_manager.h"

using namespace poseidon;
using namespace poseidon::trainer;
using namespace std::chrono_literals;

namespace {

constexpr auto kPeriod = 200ms;

std::string address() { return "@poseidon-watch-" + std::to_string(getpid()); }

/// A thread that runs posted tasks, like an I/O thread.
class IoThread {
 public:
  Heartbeat::Post post() {
    return [this](std::function<void()> task) { inbox_.post(std::move(task)); };
  }

 private:
  Inbox inbox_;
  std::jthread thread_{[this](const std::stop_token& stop) {
    while (!stop.stop_requested()) inbox_.run_one(Inbox::Clock::now() + 10ms);
  }};
};

/// Whether the datagrams stop. A few may still arrive for earlier heartbeats.
bool falls_silent(ServiceManager& manager) {
  for (int i = 0; i < 5; ++i)
    if (manager.next(400) == "") return true;
  return false;
}

comm::Progress at_work(const std::string& doing) { return {.doing = doing, .unit = {}}; }

}  // namespace

TEST_CASE("a service is ready when worker and server both look for a coordinator") {
  ServiceManager manager(address());
  const auto worker = std::make_shared<Heartbeat>();
  const auto server = std::make_shared<Heartbeat>("server: ");
  const ServiceManagerReporter watch(address(), 0us, {worker, server}, {});
  worker->set_searching();
  CHECK(manager.next(250) == "");
  server->set_searching();
  CHECK(manager.next(10000) == "READY=1");
  CHECK(manager.next(10000) ==
        "STATUS=looking for a coordinator; server: looking for a coordinator");
  CHECK(manager.next(250) == "");
}

TEST_CASE("the status states the activity of each part and its job") {
  ServiceManager manager(address());
  const auto part = std::make_shared<Heartbeat>();
  std::stop_source stop;
  const ServiceManagerReporter watch(address(), 0us, {part}, stop.get_token());
  part->joined("worker 0 of the job \"tiny\"");
  part->does({.doing = "testing", .done = 2, .of = 8, .unit = "batches"});
  CHECK(manager.hears("STATUS=testing, 2 of 8 batches (worker 0 of the job \"tiny\")"));
  part->set_searching();
  CHECK(manager.hears("STATUS=looking for a coordinator"));
  stop.request_stop();
  CHECK(manager.next(0) == "STOPPING=1");
}

TEST_CASE("heartbeats continue while a part works or waits, and stop when its work hangs") {
  ServiceManager manager(address());
  const auto part = std::make_shared<Heartbeat>();
  IoThread io;
  const Heartbeat::PostScope reach(*part, io.post());
  const ServiceManagerReporter watch(address(), kPeriod, {part}, {});
  part->set_searching();
  for (int i = 0; i < 3; ++i) CHECK(manager.hears("WATCHDOG=1"));
  part->does(at_work("training"));
  CHECK(manager.hears("STATUS=training"));
  CHECK(falls_silent(manager));
  part->beat();
  CHECK(manager.next(10000) == "WATCHDOG=1");
}

TEST_CASE("heartbeats stop when a part's I/O thread hangs while its main thread waits") {
  ServiceManager manager(address());
  const auto part = std::make_shared<Heartbeat>();
  std::atomic<int> asked = 0;
  const Heartbeat::PostScope reach(*part, [&](const std::function<void()>&) { ++asked; });
  const ServiceManagerReporter watch(address(), kPeriod, {part}, {});
  part->set_searching();
  CHECK(manager.hears("WATCHDOG=1"));
  CHECK(falls_silent(manager));
  CHECK(asked > 2);
}

TEST_CASE("heartbeats stop when one of two parts hangs, but not when it is done") {
  ServiceManager manager(address());
  const auto hangs = std::make_shared<Heartbeat>(), lives = std::make_shared<Heartbeat>();
  IoThread io;
  const Heartbeat::PostScope reach(*lives, io.post());
  const ServiceManagerReporter watch(address(), kPeriod, {hangs, lives}, {});
  lives->set_searching();
  hangs->does(at_work("training"));
  CHECK(manager.hears("WATCHDOG=1"));
  CHECK(falls_silent(manager));
  hangs->over();
  CHECK(manager.hears("STATUS=done; looking for a coordinator"));
  CHECK(manager.hears("WATCHDOG=1"));
}
