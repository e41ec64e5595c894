// The checkpoint queue: it selects the checkpoints to write, and their order.

#include "comm/membership/checkpoint_queue.h"

#include <doctest/doctest.h>

#include "tests/support/error_of.h"

using namespace poseidon;
using namespace poseidon::comm;

namespace {

/// A queue, and the checkpoints that it wrote.
struct Queue {
  void take(int64_t step, std::vector<int64_t> digest) {
    const int64_t in_flight = std::ssize(digest) - 1;
    queue.take(
        step,
        {.worker = 2, .digest = std::move(digest), .in_flight = in_flight, .write = [this, step] {
           if (step == fails_at) throw RunError("the disk is full");
           if (step == held_at) held = queue.hold();
           written.push_back(step);
         }});
  }

  std::vector<int64_t> written, told;
  int64_t fails_at = -1, held_at = -1;
  SavedStep held;
  CheckpointQueue queue{[this](uint16_t, int64_t step) { told.push_back(step); }};
};

using Steps = std::vector<int64_t>;

}  // namespace

TEST_CASE("a checkpoint is written after it has arrived and the workers agree, in either order") {
  Queue all;
  all.take(4, {1});
  CHECK(all.written.empty());
  all.queue.agreed(4, {1});
  all.queue.agreed(8, {2});
  CHECK(all.written == Steps{4});
  all.take(8, {2});
  CHECK(all.written == Steps{4, 8});
  CHECK(all.told == Steps{4, 8});
  CHECK(all.queue.saved_step() == 8);
  CHECK(!all.queue.wants(8));
  CHECK(all.queue.wants(9));
}

TEST_CASE("a checkpoint of a step that is already saved counts as written") {
  Queue all;
  all.queue.begin_from({.step = 4});
  all.take(4, {1});
  CHECK(all.written.empty());
  CHECK(all.told == Steps{4});
  all.take(8, {2});
  all.queue.agreed(8, {2});
  CHECK(all.written == Steps{8});
}

TEST_CASE("digests of agreed steps without a checkpoint do not accumulate") {
  Queue all;
  for (int64_t step = 1; step <= 5000; ++step) all.queue.agreed(step, {7});
  all.take(1, {1});  // with other values; the digest of step 1 is forgotten
  CHECK(all.written.empty());
  all.take(5000, {7});
  CHECK(all.written.empty());  // waits for step 1
  all.queue.trust_survivors();
  CHECK(all.written == Steps{1, 5000});
}

TEST_CASE("a checkpoint that differs from the agreed values is not written, nor any later one") {
  Queue all;
  all.take(4, {1});
  CHECK(
      error_of<RunError>([&] { all.queue.agreed(4, {7}); }) ==
      "step 4: worker 2 sent a checkpoint that differs from the values that the workers agreed on");
  all.take(8, {2});
  all.queue.agreed(8, {2});
  CHECK(all.written.empty());
  CHECK(!all.queue.wants(12));
}

TEST_CASE("after a node failure, queued checkpoints are written in step order, then survivors'") {
  Queue all;
  all.take(8, {2});
  all.take(4, {1});
  all.queue.trust_survivors();
  all.take(9, {3});
  CHECK(all.written == Steps{4, 8, 9});
}

TEST_CASE("a survivor's checkpoint is written even if the agreed step had sums in flight") {
  Queue all;
  all.queue.agreed(4, {1, 10, 11});
  all.queue.trust_survivors();
  all.take(4, {3});
  CHECK(all.written == Steps{4});
}

TEST_CASE("a survivor's checkpoint that differs from the agreed values is not written") {
  Queue all;
  all.queue.agreed(4, {1});
  all.queue.trust_survivors();
  CHECK_THROWS_AS(all.take(4, {3}), RunError);
  CHECK(all.written.empty());
}

TEST_CASE("after a failed write, no later checkpoint is written") {
  Queue all;
  all.queue.trust_survivors();
  all.fails_at = 8;
  all.take(4, {1});
  CHECK(error_of<RunError>([&] { all.take(8, {2}); }) == "the disk is full");
  all.take(12, {3});
  CHECK(all.written == Steps{4});
  CHECK(all.told == Steps{4});
  CHECK(!all.queue.wants(9));
}

TEST_CASE("a held checkpoint stays the last one until the job has reverted to it") {
  Queue all;
  CHECK(all.queue.hold().step == 0);
  all.queue.release();
  all.queue.agreed(4, {1, 10});
  all.take(4, {1, 10});
  const SavedStep held = all.queue.hold();
  CHECK(held.step == 4);
  CHECK(held.in_flight == 1);
  all.queue.agreed(8, {2, 11});
  all.take(8, {2, 11});
  CHECK(all.written == Steps{4});
  CHECK(all.queue.hold().step == 4);  // another node fails meanwhile
  all.queue.release();
  all.queue.revert_to(4);
  all.queue.agreed(8, {2, 11});
  all.take(8, {2, 11});
  CHECK(all.written == Steps{4});
  all.queue.release();
  all.queue.agreed(12, {3, 12});
  all.take(12, {3, 12});
  CHECK(all.written == Steps{4, 8, 12});
}

TEST_CASE("a job reverts to the checkpoint whose write is in progress") {
  Queue all;
  all.held_at = 8;
  for (const int64_t step : {4, 8, 12}) all.queue.agreed(step, {step});
  for (const int64_t step : {4, 8, 12}) all.take(step, {step});
  CHECK(all.held.step == 8);
  CHECK(all.written == Steps{4, 8});
  CHECK(all.queue.saved_step() == 8);
}

TEST_CASE("a run resumed from a checkpoint with sums in flight can revert to it") {
  Queue all;
  all.queue.begin_from({.step = 6, .in_flight = 2});
  CHECK(all.queue.hold().step == 6);
  CHECK(all.queue.hold().in_flight == 2);
}
