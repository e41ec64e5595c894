#include "comm/simulation/worker.h"

#include <algorithm>
#include <utility>

#include "comm/exchange/tensor_intake.h"
#include "core/error.h"

namespace poseidon::comm {

using namespace std::chrono_literals;

namespace {

Time milliseconds(double ms) { return Time(static_cast<int64_t>(ms * 1e6)); }

}  // namespace

SimulatedWorker::SimulatedWorker(SimulatedWorld& world, NodeId id, int node)
    : world_(world),
      node_(node),
      member_(world.member_options(id), world.network.transport(node), *this),
      machine_({.layers = world.options.plan.layers.size(),
                .staleness = world.options.plan.staleness,
                .together = world.options.plan.overlap != Overlap::kPriority}),
      limit_(0, world.options.steps),
      random_(world.options.seed * 31 + id.rank) {}

void SimulatedWorker::after(Time wait, std::function<void()> action) {
  world_.network.after(node_, wait, [this, action = std::move(action)] {
    if (!failed_ && !over_) action();
  });
}

void SimulatedWorker::sign(const char* doing, int64_t done, int64_t of, const char* unit) {
  member_.coordinator().progress({.doing = doing, .done = done, .of = of, .unit = unit});
}

void SimulatedWorker::welcomed(uint16_t, const Json&) {
  sign("opening data");
  if (hangs(Work::kPreparing)) return;
  after(1ms, [this] { member_.prepared({{"data", "made up"}}); });
}

/// The coordinator asks for the step that this one keeps; what is in it does not matter here.
void SimulatedWorker::noted(const Note& note) {
  if (note.about != "fetch" || hangs(Work::kGiving)) return;
  sign("giving the step that it keeps");
  replica_ = world_.model.first_values();
  send_checkpoint(0);
}

void SimulatedWorker::planned(const Planned& planned) {
  exchange_ = std::make_unique<WorkerExchange>(
      world_.options.plan, member_.rank(),
      WorkerExchange::Options{.view = static_cast<uint32_t>(planned.view),
                              .carries_payload = world_.options.carries_payload,
                              .first_in_first_out = world_.options.first_in_first_out},
      *this, member_.peers(), [this](uint64_t step, uint32_t layer) { arrived(step, layer); });
  if (world_.options.carries_payload) make_memory();
  const bool meets_workers =
      std::any_of(world_.options.plan.layers.begin(), world_.options.plan.layers.end(),
                  [](const LayerPlan& layer) { return layer.scheme == Scheme::kSfb; });
  sign("building the net");
  if (hangs(Work::kBuilding)) return;
  const Time preparation = member_.rank() == 0 ? world_.options.preparation : 1ms;
  after(preparation, [this, meets_workers] {
    member_.coordinator().progress({.doing = "waiting for its peers", .unit = {}, .waits = true});
    member_.ready({digest()}, meets_workers);
  });
}

void SimulatedWorker::make_memory() {
  const Plan& plan = world_.options.plan;
  replica_ = other_ = world_.model.first_values();
  const auto in_flight = static_cast<size_t>(plan.staleness) + 1;
  sums_.assign(in_flight, replica_);
  if (exchange_->parts().size() > 1)
    parts_.assign(in_flight, std::vector<Replica>(exchange_->parts().size(), replica_));
  factors_.resize(layers());
  for (uint32_t layer = 0; layer < layers(); ++layer) {
    const LayerTraffic& traffic = plan.layers[layer].traffic;
    if (!by_factors(layer)) continue;
    for (uint32_t which : {kDeltas, kActivations}) {
      const int64_t width = which == kDeltas ? traffic.rows : traffic.columns;
      factors_[layer][which].assign(
          steps_of_factors(plan),
          std::vector<float>(static_cast<size_t>(plan.global_batch * width)));
    }
  }
}

void SimulatedWorker::started(uint64_t) {
  sign("training");
  begin_step();
}

Time SimulatedWorker::compute_time(uint32_t layer, bool forward) {
  const SimulatedJobOptions& options = world_.options;
  Time time = forward ? options.forward : options.backward;
  if (!options.times.empty())
    time =
        milliseconds(forward ? options.times[layer].forward_ms : options.times[layer].backward_ms);
  random_ = random_ * 6364136223846793005u + 1442695040888963407u;
  const double more = options.compute_jitter * static_cast<double>(random_ >> 40) * 0x1p-24;
  return time + Time(static_cast<int64_t>(more * static_cast<double>(time.count())));
}

void SimulatedWorker::begin_step() {
  const StepLimit::Next next = limit_.next(machine_.done());
  undecided_ = next == StepLimit::Next::kWait;
  if (undecided_) return;
  if (next == StepLimit::Next::kEnd) return sync();
  if (world_.options.stalls == std::pair(member_.rank(), step())) return;
  forward(0);
}

void SimulatedWorker::forward(uint32_t layer) {
  if (layer == layers()) {
    for (uint32_t each = 0; each < layers(); ++each) contribute(each, true);
    return backward(static_cast<uint32_t>(layers()));
  }
  if (!open_gate(layer)) {
    gate_ = layer;
    return;
  }
  after(compute_time(layer, true), [this, layer] { forward(layer + 1); });
}

void SimulatedWorker::backward(uint32_t layer) {
  if (layer == 0) return end_of_step();
  after(compute_time(layer - 1, false), [this, layer] {
    machine_.contributed(layer - 1);  // first: what comes in at once is the sum
    contribute(layer - 1, false);
    make_updates();
    backward(layer - 1);
  });
}

void SimulatedWorker::contribute(uint32_t layer, bool statistics) {
  const LayerPlan& plan = world_.options.plan.layers[layer];
  if (plan.scheme == Scheme::kSfb) {
    if (!statistics) contribute_own_factors(layer);
    return;
  }
  const std::vector<Part>& parts = exchange_->parts();
  for (uint32_t tensor = 0; tensor < plan.traffic.tensors.size(); ++tensor) {
    if (plan.traffic.tensors[tensor].statistic != statistics) continue;
    for (size_t i = 0; i < parts.size(); ++i) {
      std::span<float> values;
      if (world_.options.carries_payload) {
        values = parts.size() == 1 ? sums_of(step())[layer][tensor]
                                   : parts_[step() % parts_.size()][i][layer][tensor];
        world_.model.gradient(step(), layer, tensor, parts[i], values);
      }
      exchange_->contribute(layer,
                            {.step = step(), .tensor = tensor, .part = parts[i], .values = values});
    }
  }
}

void SimulatedWorker::contribute_own_factors(uint32_t layer) {
  const Plan& plan = world_.options.plan;
  const Part own = plan.assignment.shards_of(member_.rank());
  for (uint32_t shard = own.first; shard < own.first + own.count; ++shard) {
    if (world_.options.carries_payload) {
      const IndexRange rows = plan.rows_of({shard, 1});
      const auto first = static_cast<uint64_t>(rows.first);
      for (uint32_t which : {kDeltas, kActivations}) {
        const LayerTraffic& traffic = plan.layers[layer].traffic;
        const auto width = static_cast<size_t>(which == kDeltas ? traffic.rows : traffic.columns);
        world_.model.factor(step(), layer, which, first,
                            factors(layer, which, step())
                                .subspan(first * width, static_cast<size_t>(rows.count) * width));
      }
    }
    exchange_->contribute(layer, {.step = step(), .part = {shard, 1}});
  }
}

void SimulatedWorker::end_of_step() {
  machine_.end_step();
  const int64_t done = machine_.done();
  if (member_.rank() == 0) world_.result.step_ends.push_back(world_.network.now());
  member_.coordinator().note({.about = "step", .step = done, .content = Json::object()});
  if (done == limit_.last() || done % world_.options.agree_every == 0)
    sync();
  else
    begin_step();
}

/// Compares what the next step is computed with, and the sums that come after it; at the end, what
/// all sums make.
void SimulatedWorker::sync() {
  syncing_ = !machine_.has_all_sums();
  if (syncing_) return;
  if (machine_.done() == limit_.last()) machine_.finish();
  for (uint32_t layer = 0; layer < layers(); ++layer)
    check(open_gate(layer), "a sum that has come can be used");
  member_.coordinator().digest({.step = machine_.done(), .values = digests()});
  if (member_.rank() == 0 && world_.options.carries_payload) send_checkpoint(machine_.done());
  test(0);
}

void SimulatedWorker::test(int64_t batch) {
  const int64_t batches = world_.options.test_batches;
  if (batch == batches) return go_on();
  sign("testing", batch, batches, "batches");
  if (batch > 0 && hangs(Work::kTesting)) return;
  after(world_.options.test_batch, [this, batch] { test(batch + 1); });
}

void SimulatedWorker::go_on() {
  if (machine_.done() == limit_.last())
    member_.finished(machine_.done());
  else
    begin_step();
}

/// As TrainingLoop::open_gate, but that it does not block: false where a sum has not come.
bool SimulatedWorker::open_gate(uint32_t layer) {
  while (!machine_.open(layer)) {
    const std::optional<size_t> due = machine_.due(layer);
    if (!due) return false;
    update(*due);
  }
  return true;
}

void SimulatedWorker::make_updates() {
  while (const std::optional<size_t> due = machine_.due()) update(*due);
}

void SimulatedWorker::update(size_t layer) {
  const auto step = static_cast<uint64_t>(machine_.next_update(layer));
  if (world_.options.carries_payload) {
    const Replica& sums = sums_of(step);
    for (size_t tensor = 0; tensor < replica_[layer].size(); ++tensor)
      ComputeModel::update(replica_[layer][tensor], sums[layer][tensor], other_[layer][tensor]);
    std::swap(replica_[layer], other_[layer]);
    if (world_.options.drifts == std::pair(member_.rank(), step)) replica_[layer][0][0] += 1;
  }
  machine_.updated(layer);
}

void SimulatedWorker::arrived(uint64_t step, uint32_t layer) {
  if (failed_) return;  // it has gone back, or is about to
  if (world_.options.carries_payload && by_factors(layer))
    world_.model.rebuild(layer, factors(layer, kDeltas, step), factors(layer, kActivations, step),
                         sums_of(step)[layer]);
  machine_.arrived(layer);
  if (gate_ && open_gate(*gate_)) {
    after(Time{0}, [this, waiting = *gate_] { forward(waiting); });
    gate_.reset();
  }
  if (syncing_ && machine_.has_all_sums()) after(Time{0}, [this] { sync(); });
}

void SimulatedWorker::halt(int64_t step) {
  limit_.halt(step);
  if (undecided_ && !failed_ && !over_) begin_step();
}

void SimulatedWorker::failed(const Loss& loss, bool alone) {
  failed_ = true;
  loss_ = loss;
  if (hangs(Work::kStopping)) {
    // Where nobody is left to end it, the process sees to that itself (trainer/member/end_watch.h).
    if (alone)
      world_.network.after(node_, 5s, [this] {
        over_ = true;
        member_.leave();
      });
    return;
  }
  world_.network.after(node_, 1ms, [this, alone] {
    for (const size_t layer : machine_.revert_to(machine_.complete()))
      if (world_.options.carries_payload) std::swap(replica_[layer], other_[layer]);
    if (over_) return;
    if (!alone) return member_.coordinator().stopped(complete_steps());
    over_ = true;  // a local child writes its checkpoint here
    member_.leave();
  });
}

void SimulatedWorker::save(int64_t step) {
  if (hangs(Work::kSaving)) return;
  send_checkpoint(step);
  member_.coordinator().saved(step);
}

/// Of all values, and of the sums of each step in flight.
std::vector<int64_t> SimulatedWorker::digests() const {
  std::vector<int64_t> all{digest()};
  for (int64_t step = machine_.complete(); step < machine_.done(); ++step)
    all.push_back(world_.options.carries_payload
                      ? ComputeModel::digest(sums_of(static_cast<uint64_t>(step)))
                      : 0);
  return all;
}

/// The replica, and the sums of each step in flight behind it.
void SimulatedWorker::send_checkpoint(int64_t step) {
  ++checkpoints_sent_;
  send_replica(step, 0, replica_);
  for (int64_t summed = machine_.complete(); summed < machine_.done(); ++summed)
    send_replica(step, static_cast<uint32_t>(summed - machine_.complete()) + 1,
                 sums_of(static_cast<uint64_t>(summed)));
  member_.coordinator().note_after_bulk(
      {.about = "checkpoint",
       .step = step,
       .content = {{"number", checkpoints_sent_}, {"digest", digests()}}});
}

/// The tensors of a checkpoint are numbered on from replica to replica.
void SimulatedWorker::send_replica(int64_t step, uint32_t number, const Replica& replica) {
  uint32_t tensors = 0;
  for (const auto& layer : replica) tensors += static_cast<uint32_t>(layer.size());
  uint32_t index = number * tensors;
  for (const auto& layer : replica)
    for (const std::vector<float>& tensor : layer) {
      const auto copy = std::make_shared<const std::vector<float>>(tensor);
      send_tensor({.view = member_.view(),
                   .step = static_cast<uint64_t>(step),
                   .key = index++,
                   .chunk = checkpoints_sent_},
                  {std::as_bytes(std::span(*copy)), copy},
                  [this](const FrameHeader& header, const Payload& payload) {
                    member_.coordinator().send(header, payload);
                  });
    }
}

}  // namespace poseidon::comm
