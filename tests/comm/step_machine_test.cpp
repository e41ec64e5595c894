// The order of updates, and reverts: explicit cases for one step, random ones for many steps.

#include "comm/step/step_machine.h"

#include <doctest/doctest.h>

#include <random>

#include "comm/step/step_limit.h"
#include "core/error.h"
#include "tests/support/error_of.h"

using namespace poseidon;
using namespace poseidon::comm;

namespace {

using Layers = std::vector<size_t>;

/// Contributes to every layer and ends the step.
void compute_step(StepMachine& machine, size_t layers) {
  for (size_t layer = layers; layer-- > 0;) machine.contributed(layer);
  machine.end_step();
}

void arrive(StepMachine& machine, const Layers& layers) {
  for (const size_t layer : layers) machine.arrived(layer);
}

/// Updates all layers that are due. Returns them in order.
Layers update_all(StepMachine& machine) {
  Layers updated;
  while (const std::optional<size_t> due = machine.due()) {
    machine.updated(*due);
    updated.push_back(*due);
  }
  return updated;
}

}  // namespace

TEST_CASE("a step can be abandoned only before any layer's update for it") {
  StepMachine machine({.layers = 2});
  compute_step(machine, 2);
  arrive(machine, {1, 0});
  update_all(machine);
  machine.contributed(1);
  machine.arrived(1);
  CHECK(machine.abandon_after(1));
  CHECK(machine.done() == 1);
  CHECK(machine.open(1));
  CHECK_FALSE(machine.due());
  machine.contributed(1);
  machine.arrived(1);
  machine.updated(1);
  CHECK_FALSE(machine.abandon_after(1));
  CHECK(machine.complete() == 1);
}

TEST_CASE("all due updates are of the earliest step") {
  StepMachine machine({.layers = 3});
  compute_step(machine, 3);
  arrive(machine, {2, 0});
  CHECK(machine.all_due() == Layers{0, 2});
  machine.updated(2);
  CHECK(machine.all_due() == Layers{0});
  machine.contributed(2);
  machine.arrived(2);
  CHECK(machine.all_due() == Layers{0});
  machine.updated(0);
  CHECK(machine.all_due().empty());
  machine.arrived(1);
  machine.updated(1);
  CHECK(machine.all_due() == Layers{2});

  StepMachine barrier({.layers = 2, .barrier = true});
  compute_step(barrier, 2);
  barrier.arrived(0);
  CHECK(barrier.all_due().empty());
  barrier.arrived(1);
  CHECK(barrier.all_due() == Layers{0, 1});
}

TEST_CASE("a completed step is abandoned if another device failed in it") {
  StepMachine machine({.layers = 2, .staleness = 1});
  for (int step = 0; step < 2; ++step) {
    compute_step(machine, 2);
    arrive(machine, {1, 0});
    update_all(machine);
  }
  compute_step(machine, 2);
  CHECK(machine.done() == 3);
  CHECK_FALSE(machine.abandon_after(1));
  CHECK(machine.done() == 3);
  CHECK(machine.abandon_after(2));
  CHECK(machine.done() == 2);
  CHECK(machine.has_all_sums());
}

TEST_CASE("a gate is closed from the contribution to the update") {
  StepMachine machine({.layers = 2});
  CHECK(machine.open(0));
  machine.contributed(1);
  CHECK_FALSE(machine.open(1));
  CHECK(machine.open(0));
  CHECK_FALSE(machine.due());
  machine.arrived(1);
  CHECK(machine.due() == 1);
  machine.updated(1);
  CHECK(machine.open(1));
  CHECK(machine.complete() == 0);
  machine.contributed(0);
  machine.end_step();
  CHECK(machine.done() == 1);
  CHECK_FALSE(machine.has_all_sums());
  machine.arrived(0);
  CHECK(machine.has_all_sums());
  machine.updated(0);
  CHECK(machine.complete() == 1);
}

TEST_CASE("the needed layer is updated first, and others while its sum is pending") {
  StepMachine machine({.layers = 3});
  compute_step(machine, 3);
  arrive(machine, {0, 2});
  CHECK(machine.due(2) == 2);
  CHECK(machine.due(1) == 0);
  CHECK(machine.due() == 0);
}

TEST_CASE("a sum that arrives early is not applied early") {
  StepMachine machine({.layers = 1, .staleness = 1});
  compute_step(machine, 1);
  machine.arrived(0);
  CHECK(machine.open(0));
  CHECK_FALSE(machine.due());
  machine.contributed(0);
  CHECK(machine.due() == 0);
  machine.updated(0);
  machine.end_step();
  machine.arrived(0);
  CHECK(machine.open(0));
  CHECK_FALSE(machine.due());
  machine.finish();
  CHECK(update_all(machine) == Layers{0});
  CHECK(machine.complete() == 2);
}

TEST_CASE("joint updates wait for all sums and for the last use of all parameters") {
  for (const int64_t staleness : {0, 1}) {
    StepMachine machine({.layers = 2, .staleness = staleness, .barrier = true});
    if (staleness == 1) compute_step(machine, 2);
    if (staleness == 1) arrive(machine, {0, 1});
    machine.contributed(1);
    if (staleness == 0) machine.arrived(1);
    CHECK_FALSE(machine.due());
    machine.contributed(0);
    if (staleness == 0) CHECK_FALSE(machine.due());
    if (staleness == 0) machine.arrived(0);
    CHECK(machine.due(1) == 1);
    CHECK(update_all(machine) == Layers{0, 1});
  }
}

TEST_CASE("sums in flight of a checkpoint are present and are applied step by step") {
  StepMachine machine({.layers = 2, .done = 7, .in_flight = 2});
  CHECK(machine.complete() == 5);
  CHECK(machine.has_sums(0, 6));
  CHECK_FALSE(machine.has_sums(0, 7));
  CHECK_FALSE(machine.open(0));
  CHECK(machine.next_update(0) == 5);
  machine.updated(0);
  CHECK(machine.due(0) == 1);  // no layer may be two steps ahead of another
  CHECK(update_all(machine) == Layers{1, 0, 1});
  CHECK(machine.complete() == 7);
  CHECK(machine.open(0));
}

TEST_CASE("a partially updated step is reverted, and so is the last complete step") {
  StepMachine machine({.layers = 2});
  CHECK(machine.earliest_revertible() == 0);
  for (int step = 0; step < 3; ++step) {
    compute_step(machine, 2);
    arrive(machine, {0, 1});
    update_all(machine);
  }
  compute_step(machine, 2);
  machine.arrived(1);
  CHECK(machine.earliest_revertible() == 2);
  SUBCASE("torn") {
    machine.updated(1);
    CHECK(machine.earliest_revertible() == 3);
    CHECK(machine.revert_to(3) == Layers{1});
    CHECK(machine.done() == 3);
    CHECK(machine.earliest_revertible() == 3);
  }
  SUBCASE("whole") {
    CHECK(machine.revert_to(2) == Layers{0, 1});
    CHECK(machine.done() == 2);
    CHECK(machine.revert_to(2).empty());
    CHECK_THROWS_AS(machine.revert_to(1), LogicError);
  }
  // The machine continues from the reverted step.
  const int64_t from = machine.done();
  CHECK(machine.open(0));
  compute_step(machine, 2);
  arrive(machine, {0, 1});
  CHECK(update_all(machine) == Layers{0, 1});
  CHECK(machine.complete() == from + 1);
}

TEST_CASE("invalid calls of the step machine throw") {
  StepMachine machine({.layers = 2});
  CHECK_THROWS_AS(machine.arrived(0), LogicError);
  machine.contributed(0);
  CHECK_THROWS_AS(machine.contributed(0), LogicError);
  CHECK_THROWS_AS(machine.end_step(), LogicError);
  CHECK_THROWS_AS(machine.updated(0), LogicError);
  CHECK_THROWS_AS(StepMachine({.layers = 1, .done = 1, .in_flight = 2}), LogicError);
}

TEST_CASE("a net without parameters completes its steps, and can revert any number of them") {
  StepMachine machine({.layers = 0});
  for (int step = 0; step < 3; ++step) machine.end_step();
  CHECK(machine.complete() == 3);
  CHECK(machine.has_all_sums());
  CHECK_FALSE(machine.due());
  CHECK(machine.earliest_revertible() == 0);
  CHECK(machine.revert_to(1).empty());
  CHECK(machine.complete() == 1);
}

TEST_CASE("each step uses exactly the sums that staleness allows, in any order of arrival") {
  constexpr size_t kLayers = 4;
  constexpr int64_t kSteps = 40;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto staleness = static_cast<int64_t>(random() % 4);
    StepMachine machine({.layers = kLayers, .staleness = staleness, .barrier = random() % 4 == 0});
    std::vector<int64_t> contributed(kLayers), arrived(kLayers);
    // A random subset of the sums that may have arrived.
    const auto some_arrive = [&](uint32_t chance) {
      for (size_t layer = 0; layer < kLayers; ++layer)
        while (arrived[layer] < contributed[layer] && random() % 4 < chance) {
          machine.arrived(layer);
          ++arrived[layer];
        }
    };
    CAPTURE(seed);
    for (int64_t step = 0; step < kSteps; ++step) {
      for (size_t layer = 0; layer < kLayers; ++layer) {
        while (!machine.open(layer))
          if (const std::optional<size_t> due = machine.due(layer))
            machine.updated(*due);
          else
            some_arrive(3);
        CHECK(machine.next_update(layer) == std::max<int64_t>(0, step - staleness));
      }
      for (size_t layer = kLayers; layer-- > 0;) {
        machine.contributed(layer);
        ++contributed[layer];
        some_arrive(static_cast<uint32_t>(random() % 4));
        update_all(machine);
        CHECK(machine.complete() >= std::max<int64_t>(0, step - staleness));
      }
      machine.end_step();
    }
  }
}

TEST_CASE("after a halt offer, a worker waits at the offered step") {
  StepLimit limit(3, 10);
  CHECK(limit.next(3) == StepLimit::Next::kBegin);
  CHECK(limit.begun() == 4);
  CHECK(limit.offer() == 5);
  CHECK(limit.next(4) == StepLimit::Next::kBegin);
  CHECK(limit.next(5) == StepLimit::Next::kWait);
  limit.halt(6);
  CHECK(limit.halted());
  CHECK(limit.next(5) == StepLimit::Next::kBegin);
  CHECK(limit.next(6) == StepLimit::Next::kEnd);
}

TEST_CASE("a halt offer does not exceed the last step, and the last step is no halt") {
  StepLimit limit(9, 10);
  CHECK(limit.next(9) == StepLimit::Next::kBegin);
  CHECK(limit.offer() == 10);
  limit.halt(10);
  CHECK_FALSE(limit.halted());
  CHECK(limit.next(10) == StepLimit::Next::kEnd);
  StepLimit failed(0, 10);
  failed.end();
  CHECK(failed.ended());
  CHECK(failed.next(0) == StepLimit::Next::kEnd);
}
