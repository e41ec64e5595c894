// The wait-eliding driver: waits that it leaves out, and waits that it must keep.

#include "core/cuda/wait_eliding_driver.h"

#include <doctest/doctest.h>

#include <atomic>
#include <vector>

#include "tests/support/gpu/fake_driver.h"

using namespace poseidon;
using namespace poseidon::cuda;

namespace {

class Nothing final : public Operation {
 public:
  std::string name() const override { return "nothing"; }
  void visit(MemoryVisitor&) const override {}
  void issue(const Executor&) const override {}
};

struct Streams {
  void issue(Stream stream) { driver.issue(stream, std::make_unique<Nothing>()); }

  std::atomic<int64_t> waits = 0;
  WaitElidingDriver driver{std::make_unique<FakeDriver>(FakeDriver::Options{.waits = &waits})};
  Stream first = driver.make_stream(StreamPriority::kNormal),
         second = driver.make_stream(StreamPriority::kNormal),
         third = driver.make_stream(StreamPriority::kNormal);
};

}  // namespace

TEST_CASE("a stream waits once for an event, and only when it has work") {
  Streams streams;
  streams.issue(streams.first);
  const auto mark = streams.driver.record(streams.first);
  streams.driver.wait(streams.second, mark);
  CHECK(streams.waits == 0);
  streams.issue(streams.second);
  CHECK(streams.waits == 1);
  streams.driver.wait(streams.second, mark);
  streams.issue(streams.second);
  CHECK(streams.waits == 1);
}

TEST_CASE("a stream does not wait for itself, nor for an event implied by another wait") {
  Streams streams;
  streams.issue(streams.first);
  const auto of_first = streams.driver.record(streams.first);
  streams.driver.wait(streams.first, of_first);
  streams.issue(streams.first);
  CHECK(streams.waits == 0);
  streams.driver.wait(streams.second, of_first);
  streams.issue(streams.second);
  streams.driver.wait(streams.third, streams.driver.record(streams.second));
  streams.driver.wait(streams.third, of_first);
  streams.issue(streams.third);
  CHECK(streams.waits == 2);
}

TEST_CASE("of two awaited events of one stream, only the later one causes a wait") {
  Streams streams;
  streams.issue(streams.first);
  streams.driver.wait(streams.second, streams.driver.record(streams.first));
  streams.issue(streams.first);
  streams.driver.wait(streams.second, streams.driver.record(streams.first));
  streams.issue(streams.second);
  CHECK(streams.waits == 1);
}

TEST_CASE("record() returns the same event until new work is issued") {
  Streams streams;
  streams.issue(streams.first);
  const auto mark = streams.driver.record(streams.first);
  CHECK(streams.driver.record(streams.first) == mark);
  streams.issue(streams.first);
  CHECK(streams.driver.record(streams.first) != mark);
}

TEST_CASE("no stream waits for work that the host has waited for") {
  Streams streams;
  streams.issue(streams.first);
  const auto mark = streams.driver.record(streams.first);
  mark->wait();
  streams.driver.wait(streams.second, mark);
  streams.issue(streams.second);
  CHECK(streams.waits == 0);
}
