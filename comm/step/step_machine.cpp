#include "comm/step/step_machine.h"

#include <algorithm>

#include "comm/wire/mutation.h"
#include "core/error.h"

namespace poseidon::comm {

StepMachine::StepMachine(const Options& options)
    : layers_(options.layers,
              {.arrived = options.done, .updated = options.done - options.in_flight}),
      staleness_(options.staleness),
      barrier_(options.barrier),
      done_(options.done) {
  check(options.in_flight >= 0 && options.in_flight <= options.done && options.staleness >= 0,
        "only completed steps have sums in flight");
}

void StepMachine::contributed(size_t layer) {
  check(!layers_[layer].contributed, "a layer contributes to a step once");
  layers_[layer].contributed = true;
}

void StepMachine::end_step() {
  ++done_;
  for (Layer& layer : layers_) {
    check(layer.contributed, "a step ends when all layers have contributed to it");
    layer.contributed = false;
  }
}

void StepMachine::arrived(size_t layer) {
  Layer& of = layers_[layer];
  check(of.arrived < done_ + (of.contributed ? 1 : 0), "a sum comes after all contributions to it");
  ++of.arrived;
}

void StepMachine::updated(size_t layer) {
  check(due(layer) == layer, "an update is made when it is due");
  ++layers_[layer].updated;
  layers_[layer].has_older = true;
}

/// The number of steps whose updates a layer must have made before its gate opens.
int64_t StepMachine::goal(size_t layer) const {
  const int64_t contributed = done_ + (layers_[layer].contributed ? 1 : 0);
  return contributed - staleness_ - (mutated(Mutation::kEarlyGate) ? 1 : 0);
}

/// Whether updates of `step` may begin. With a barrier, all layers must need this update and have
/// their sums of `step`.
bool StepMachine::may_begin(int64_t step) const {
  if (!barrier_) return true;
  for (size_t layer = 0; layer < layers_.size(); ++layer)
    if (goal(layer) <= step || layers_[layer].arrived <= step) return false;
  return true;
}

bool StepMachine::is_due(size_t layer, int64_t complete) const {
  const Layer& of = layers_[layer];
  return of.updated == complete && of.updated < goal(layer) && of.arrived > of.updated;
}

std::optional<size_t> StepMachine::due(size_t wanted) const {
  const int64_t all_have = complete();
  return is_due(wanted, all_have) && may_begin(all_have) ? wanted : due();
}

std::optional<size_t> StepMachine::due() const {
  const int64_t all_have = complete();
  if (!may_begin(all_have)) return std::nullopt;
  for (size_t layer = 0; layer < layers_.size(); ++layer)
    if (is_due(layer, all_have)) return layer;
  return std::nullopt;
}

std::vector<size_t> StepMachine::all_due() const {
  std::vector<size_t> due;
  const int64_t all_have = complete();
  if (!may_begin(all_have)) return due;
  for (size_t layer = 0; layer < layers_.size(); ++layer)
    if (is_due(layer, all_have)) due.push_back(layer);
  return due;
}

bool StepMachine::has_all_sums() const {
  return std::ranges::all_of(layers_, [&](const Layer& of) { return of.arrived >= done_; });
}

int64_t StepMachine::complete() const {
  if (layers_.empty()) return done_;
  return std::ranges::min(layers_, {}, &Layer::updated).updated;
}

int64_t StepMachine::earliest_revertible() const {
  if (layers_.empty()) return 0;
  const int64_t all_have = complete();
  const bool all_can = std::ranges::all_of(
      layers_, [&](const Layer& of) { return of.has_older && of.updated == all_have; });
  return all_can ? all_have - 1 : all_have;
}

bool StepMachine::abandon_after(int64_t step) {
  check(step <= done_, "only a step that has begun can be abandoned");
  const auto is_torn = [&](const Layer& of) { return of.updated > step - staleness_; };
  if (std::ranges::any_of(layers_, is_torn)) return false;
  for (Layer& layer : layers_) {
    layer.contributed = false;
    layer.arrived = std::min(layer.arrived, step);
  }
  done_ = step;
  return true;
}

std::vector<size_t> StepMachine::revert_to(int64_t step) {
  check(step >= earliest_revertible() && step <= complete(),
        "a worker with parameters can return by at most one step");
  [[maybe_unused]] const int64_t complete_before = complete();
  std::vector<size_t> back;
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    Layer& of = layers_[layer];
    if (of.updated > step) {
      of.has_older = false;
      const bool forgotten =
          mutated(Mutation::kTornStep) || (mutated(Mutation::kNoWayBack) && step < complete_before);
      if (!forgotten) back.push_back(layer);
    }
    of.arrived = of.updated = step;
    of.contributed = false;
  }
  done_ = step;
  return back;
}

}  // namespace poseidon::comm
