#include "comm/simulation/training.h"

#include <utility>

#include "comm/plan/chunks.h"
#include "comm/wire/mutation.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {

Time milliseconds(double ms) { return Time(static_cast<int64_t>(ms * 1e6)); }

StepMachine machine_at(int64_t step, const Plan& plan, int64_t in_flight) {
  return StepMachine({.layers = plan.layers.size(),
                      .done = step,
                      .in_flight = in_flight,
                      .staleness = plan.staleness,
                      .barrier = plan.overlap != Overlap::kPriority});
}

/// Sends the digests of one tensor group if they are due, as WorkerTraining does
/// (trainer/member/worker_training.h).
void compare_in_turn(const SimulatedJobOptions& options, Member& member,
                     const SimulatedReplica& replica, int64_t done) {
  const int64_t every = options.digest_every;
  if (every == 0 || !options.carries_payload || done == 0 || done % every != 0) return;
  const int64_t turn = done / every % kDigestTurns;
  std::vector<int64_t> digests = replica.digests_in_turn(turn);
  if (!digests.empty())
    member.coordinator().digest({.step = done, .turn = turn, .values = std::move(digests)});
}

}  // namespace

SimulatedTraining::SimulatedTraining(SimulatedWorld& world, Member& member,
                                     SimulatedReplica& replica, Callbacks callbacks, uint64_t seed)
    : world_(world),
      member_(member),
      replica_(replica),
      callbacks_(std::move(callbacks)),
      random_(seed),
      machine_(machine_at(0, world.options.plan, 0)),
      limit_(0, world.options.steps) {}

/// If a sync was due after the last step of the old view, its digests and checkpoint may be lost
/// with that view. So the new view repeats the sync.
void SimulatedTraining::begin(WorkerExchange& exchange, const Plan& plan) {
  exchange_ = &exchange;
  plan_ = &plan;
  if (member_.view() > 1 && machine_.done() > 0 && is_sync_due())
    sync();
  else
    begin_step();
}

bool SimulatedTraining::is_sync_due() const {
  return machine_.done() == limit_.last() || machine_.done() % world_.options.agree_every == 0;
}

Time SimulatedTraining::compute_time(uint32_t layer, bool forward) {
  const SimulatedJobOptions& options = world_.options;
  Time time = forward ? options.forward : options.backward;
  if (!options.times.empty())
    time =
        milliseconds(forward ? options.times[layer].forward_ms : options.times[layer].backward_ms);
  random_ = random_ * 6364136223846793005u + 1442695040888963407u;
  const double more = options.compute_jitter * static_cast<double>(random_ >> 40) * 0x1p-24;
  return time + Time(static_cast<int64_t>(more * static_cast<double>(time.count())));
}

// ---- a step

void SimulatedTraining::begin_step() {
  const StepLimit::Next next = limit_.next(machine_.done());
  undecided_ = next == StepLimit::Next::kWait;
  if (undecided_) return;
  pausing_ = next == StepLimit::Next::kPause;
  if (pausing_ || next == StepLimit::Next::kEnd) return sync();
  if (world_.options.stalls == std::pair(member_.rank(), step())) return;
  batch_ = drawn_++;
  forward(0);
}

void SimulatedTraining::forward(uint32_t layer) {
  if (layer == layers()) {
    compare_in_turn(world_.options, member_, replica_, machine_.done());
    for (uint32_t each = 0; each < layers(); ++each) contribute(each, true);
    return backward(static_cast<uint32_t>(layers()));
  }
  if (!open_gate(layer)) {
    gate_ = layer;
    return;
  }
  callbacks_.after(compute_time(layer, true), [this, layer] { forward(layer + 1); });
}

void SimulatedTraining::backward(uint32_t layer) {
  if (layer == 0) return end_of_step();
  callbacks_.after(compute_time(layer - 1, false), [this, layer] {
    machine_.contributed(layer - 1);  // before contribute(), which may deliver the sum
    contribute(layer - 1, false);
    make_updates();
    backward(layer - 1);
  });
}

void SimulatedTraining::contribute(uint32_t layer, bool statistics) {
  const LayerPlan& plan = world_.options.plan.layers[layer];
  if (traits_of(plan.scheme).sends_factors()) {
    if (!statistics) contribute_factors(layer);
    return;
  }
  const std::vector<Part>& parts = exchange_->parts();
  const Part own = plan_->assignment.shards_of(member_.rank());
  for (uint32_t tensor = 0; tensor < plan.traffic.tensors.size(); ++tensor) {
    if (plan.traffic.tensors[tensor].statistic != statistics) continue;
    Contribution contribution{.step = step(), .tensor = tensor};
    if (rounds_shards(plan_->wire, plan.traffic.tensors[tensor])) {
      for (uint32_t shard = own.first; shard < own.first + own.count; ++shard) {
        contribution.part = {shard, 1};
        contribution.rounded = replica_.make_rounded(step(), batch_, layer, tensor, shard);
        pass_to_exchange(layer, contribution);
      }
      continue;
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      contribution.part = parts[i];
      contribution.values = replica_.make_gradient(step(), batch_, layer, tensor, i);
      pass_to_exchange(layer, contribution);
    }
  }
}

void SimulatedTraining::contribute_factors(uint32_t layer) {
  const Part own = plan_->assignment.shards_of(member_.rank());
  for (uint32_t shard = own.first; shard < own.first + own.count; ++shard) {
    replica_.make_factors(step(), batch_, layer, shard);
    pass_to_exchange(layer, {.step = step(), .part = {shard, 1}});
  }
}

/// Counts the contributions of all workers to each logical shard of this batch and layer, in the
/// latest view. The first contribution in a later view restarts the count.
void SimulatedTraining::count(uint32_t layer, const Contribution& contribution) {
  const Part part = contribution.part;
  for (uint32_t shard = part.first; shard < part.first + part.count; ++shard) {
    auto& [view, times] = world_.result.given[{batch_, layer, shard}];
    if (view > member_.view()) continue;  // the worker was paused, and contributes to an old view
    if (view < member_.view()) times = 0;
    view = member_.view();
    ++times;
  }
}

/// Passes a contribution to the exchange, at once or at the end of the backward pass, as
/// ClusterExchange does (trainer/step/cluster_exchange.h).
void SimulatedTraining::pass_to_exchange(uint32_t layer, const Contribution& contribution) {
  if (contribution.tensor == 0) count(layer, contribution);
  if (world_.options.plan.overlap == Overlap::kNone)
    held_back_.emplace_back(layer, contribution);
  else
    exchange_->contribute(layer, contribution);
}

void SimulatedTraining::end_of_step() {
  for (const auto& [layer, contribution] : std::exchange(held_back_, {}))
    exchange_->contribute(layer, contribution);
  machine_.end_step();
  const int64_t done = machine_.done();
  if (member_.rank() == 0) world_.result.step_ends.push_back(world_.network.now());
  member_.coordinator().note({.about = "step", .step = done, .content = Json::object()});
  if (is_sync_due())
    sync();
  else
    begin_step();
}

// ---- between steps

/// Waits until all sums have arrived. Then sends digests to the coordinator: of the values for the
/// next step and of the sums in flight. After the last step it sends the digests of the final
/// values. Worker 0 also sends a checkpoint. A test follows. If joiners wait, only reports the
/// pause. The joiners begin with this state.
void SimulatedTraining::sync() {
  syncing_ = !machine_.has_all_sums();
  if (syncing_) return;
  if (machine_.done() == limit_.last()) machine_.finish();
  for (uint32_t layer = 0; layer < layers(); ++layer)
    check(open_gate(layer), "a sum that has come can be used");
  if (pausing_) return member_.coordinator().paused(machine_.done());
  member_.coordinator().digest({.step = machine_.done(),
                                .turn = Digest::kAll,
                                .values = replica_.digests(machine_.complete(), machine_.done())});
  if (member_.rank() == 0 && world_.options.carries_payload) callbacks_.send_checkpoint();
  test(0);
}

void SimulatedTraining::test(int64_t batch) {
  const int64_t batches = world_.options.test_batches;
  if (batch == batches) return go_on();
  member_.coordinator().progress(
      {.doing = "testing", .done = batch, .of = batches, .unit = "batches"});
  if (batch > 0 && world_.hangs({Role::kWorker, member_.rank()}, Work::kTesting)) return;
  callbacks_.after(world_.options.test_batch, [this, batch] { test(batch + 1); });
}

void SimulatedTraining::go_on() {
  if (machine_.done() == limit_.last())
    member_.finished(machine_.done());
  else
    begin_step();
}

void SimulatedTraining::end_after(int64_t step, StepLimit::Next then) {
  if (then == StepLimit::Next::kPause)
    limit_.pause(step);
  else
    limit_.halt(step);
  if (undecided_) callbacks_.after(Time{0}, [this] { begin_step(); });
}

// ---- sums and updates

/// Makes due updates until the layer's gate is open. Returns false if a sum that the gate needs has
/// not arrived. TrainingLoop::open_gate waits for the sum instead.
bool SimulatedTraining::open_gate(uint32_t layer) {
  while (!machine_.open(layer)) {
    const std::optional<size_t> due = machine_.due(layer);
    if (!due) return false;
    update(*due);
  }
  return true;
}

void SimulatedTraining::make_updates() {
  while (const std::optional<size_t> due = machine_.due()) update(*due);
}

void SimulatedTraining::update(size_t layer) {
  const auto step = static_cast<uint64_t>(machine_.next_update(layer));
  replica_.update(step, layer);
  // In later views other workers may have these ranks.
  if ((member_.view() == 1 || world_.options.all_diverge) &&
      world_.options.diverges == std::pair(member_.rank(), step))
    replica_.corrupt(layer);
  machine_.updated(layer);
}

void SimulatedTraining::arrived(uint64_t step, uint32_t layer) {
  if (traits_of(world_.options.plan.layers[layer].scheme).rebuilds()) replica_.rebuild(step, layer);
  machine_.arrived(layer);
  if (gate_ && open_gate(*gate_)) {
    callbacks_.after(Time{0}, [this, waiting = *gate_] { forward(waiting); });
    gate_.reset();
  }
  if (syncing_ && machine_.has_all_sums()) callbacks_.after(Time{0}, [this] { sync(); });
}

void SimulatedTraining::go_to(int64_t step, std::optional<int64_t> in_flight) {
  if (in_flight)
    machine_ = machine_at(step, world_.options.plan, *in_flight);
  else
    for (const size_t layer : machine_.revert_to(step)) replica_.revert(layer);
  limit_ = StepLimit(step, world_.options.steps);
  if (!mutated(Mutation::kNextData)) drawn_ = static_cast<uint64_t>(step);
  held_back_.clear();
  gate_.reset();
  undecided_ = syncing_ = pausing_ = false;
}

}  // namespace poseidon::comm
