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
      versions_(world.options.plan.layers.size(), 0),
      limit_(world.options.steps),
      last_step_(world.options.steps),
      random_(world.options.seed * 31 + id.rank) {}

void SimulatedWorker::after(Time wait, std::function<void()> action) {
  world_.network.after(node_, wait, [this, action = std::move(action)] {
    if (!failed_ && !over_) action();
  });
}

void SimulatedWorker::sign(const char* doing, int64_t done, int64_t of, const char* unit) {
  member_.progress({.doing = doing, .done = done, .of = of, .unit = unit});
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
      *this, member_, [this](uint64_t step, uint32_t layer) { arrived(step, layer); });
  if (world_.options.carries_payload) make_memory();
  const bool meets_workers =
      std::any_of(world_.options.plan.layers.begin(), world_.options.plan.layers.end(),
                  [](const LayerPlan& layer) { return layer.scheme == Scheme::kSfb; });
  sign("building the net");
  if (hangs(Work::kBuilding)) return;
  const Time preparation = member_.rank() == 0 ? world_.options.preparation : 1ms;
  after(preparation, [this, meets_workers] {
    member_.progress({.doing = "waiting for its peers", .unit = {}, .waits = true});
    member_.ready({digest()}, meets_workers);
  });
}

void SimulatedWorker::make_memory() {
  const Plan& plan = world_.options.plan;
  replica_ = other_ = world_.model.first_values();
  sums_.assign(staleness() + 1, replica_);
  if (exchange_->parts().size() > 1)
    parts_.assign(staleness() + 1, std::vector<Replica>(exchange_->parts().size(), replica_));
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
  if (static_cast<int64_t>(step_) >= limit_) return;  // halt() goes on
  if (world_.options.stalls == std::pair(member_.rank(), step_)) return;
  computing_ = true;
  forward(0);
}

void SimulatedWorker::forward(uint32_t layer) {
  if (layer == layers()) {
    for (uint32_t each = 0; each < layers(); ++each) contribute(each, true);
    return backward(static_cast<uint32_t>(layers()));
  }
  if (!bring(layer, step_ - std::min(step_, staleness()))) {
    gate_ = layer;
    return;
  }
  after(compute_time(layer, true), [this, layer] { forward(layer + 1); });
}

void SimulatedWorker::backward(uint32_t layer) {
  if (layer == 0) return end_of_step();
  after(compute_time(layer - 1, false), [this, layer] {
    contribute(layer - 1, false);
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
        values = parts.size() == 1 ? sums_of(step_)[layer][tensor]
                                   : parts_[step_ % parts_.size()][i][layer][tensor];
        world_.model.gradient(step_, layer, tensor, parts[i], values);
      }
      exchange_->contribute(step_, layer, tensor, parts[i], values);
    }
  }
}

void SimulatedWorker::contribute_own_factors(uint32_t layer) {
  const Plan& plan = world_.options.plan;
  const Part own = shards_of_worker(static_cast<uint32_t>(plan.logical_shards),
                                    static_cast<uint32_t>(plan.workers), member_.rank());
  for (uint32_t shard = own.first; shard < own.first + own.count; ++shard) {
    if (world_.options.carries_payload) {
      const Part rows = shards_of_worker(static_cast<uint32_t>(plan.global_batch),
                                         static_cast<uint32_t>(plan.logical_shards), shard);
      for (uint32_t which : {kDeltas, kActivations}) {
        const LayerTraffic& traffic = plan.layers[layer].traffic;
        const auto width = static_cast<size_t>(which == kDeltas ? traffic.rows : traffic.columns);
        world_.model.factor(
            step_, layer, which, rows.first,
            factors(layer, which, step_).subspan(rows.first * width, rows.count * width));
      }
    }
    exchange_->contribute_factors(step_, layer, shard);
  }
}

void SimulatedWorker::end_of_step() {
  computing_ = false;
  ++step_;
  if (member_.rank() == 0) world_.result.step_ends.push_back(world_.network.now());
  member_.note({.about = "step", .step = static_cast<int64_t>(step_), .content = Json::object()});
  const auto done = static_cast<int64_t>(step_);
  if (done == last_step_ || done % world_.options.agree_every == 0)
    sync();
  else
    begin_step();
}

bool SimulatedWorker::all_arrived() const {
  for (uint32_t layer = 0; layer < layers(); ++layer)
    if (exchange_->step_of(layer) < step_) return false;
  return true;
}

/// Compares what the next step is computed with, and the sums that come after it; at the end, what
/// all sums make.
void SimulatedWorker::sync() {
  syncing_ = !all_arrived();
  if (syncing_) return;
  const bool last = static_cast<int64_t>(step_) == last_step_;
  bring_all(last ? step_ : step_ - std::min(step_, staleness()));
  Digest compared{.step = static_cast<int64_t>(step_), .values = {digest()}};
  for (uint64_t step = versions_.complete_steps(); step < step_; ++step)
    compared.values.push_back(world_.options.carries_payload ? ComputeModel::digest(sums_of(step))
                                                             : 0);
  member_.digest(compared);
  if (member_.rank() == 0 && world_.options.carries_payload) send_checkpoint(complete_steps());
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
  if (static_cast<int64_t>(step_) == last_step_)
    member_.finished(last_step_);
  else
    begin_step();
}

/// Updates a layer by the sums of its steps up to `steps`; false where they have not come.
bool SimulatedWorker::bring(uint32_t layer, uint64_t steps) {
  while (versions_.steps_of(layer) < steps) {
    if (exchange_->step_of(layer) <= versions_.steps_of(layer)) return false;
    update(layer);
  }
  return true;
}

void SimulatedWorker::bring_all(uint64_t steps) {
  for (uint64_t to = versions_.complete_steps() + 1; to <= steps; ++to)
    for (uint32_t layer = 0; layer < layers(); ++layer)
      check(bring(layer, to), "a sum that has come can be used");
}

void SimulatedWorker::update(uint32_t layer) {
  const uint64_t step = versions_.steps_of(layer);
  if (world_.options.carries_payload) {
    const Replica& sums = sums_of(step);
    for (size_t tensor = 0; tensor < replica_[layer].size(); ++tensor)
      ComputeModel::update(replica_[layer][tensor], sums[layer][tensor], other_[layer][tensor]);
    std::swap(replica_[layer], other_[layer]);
    if (world_.options.drifts == std::pair(member_.rank(), step)) replica_[layer][0][0] += 1;
  }
  versions_.updated(layer);
}

void SimulatedWorker::arrived(uint64_t step, uint32_t layer) {
  if (world_.options.carries_payload && by_factors(layer))
    world_.model.rebuild(layer, factors(layer, kDeltas, step), factors(layer, kActivations, step),
                         sums_of(step)[layer]);
  // A sum that is on time is used at once, one that is late by the plan at its gate.
  if (staleness() == 0) update(layer);
  if (gate_ == layer) {
    gate_.reset();
    after(Time{0}, [this, layer] { forward(layer); });
  }
  if (syncing_ && all_arrived()) after(Time{0}, [this] { sync(); });
}

int64_t SimulatedWorker::offer_halt() {
  const auto begun = static_cast<int64_t>(step_) + (computing_ ? 1 : 0);
  return limit_ = std::min(begun + 1, last_step_);
}

void SimulatedWorker::halt(int64_t step) {
  const bool waits = !computing_ && !syncing_ && static_cast<int64_t>(step_) >= limit_;
  limit_ = last_step_ = step;
  if (!waits || failed_ || over_) return;
  if (static_cast<int64_t>(step_) == last_step_)
    sync();
  else
    begin_step();
}

void SimulatedWorker::revert_incomplete() {
  if (!world_.options.carries_payload) return;
  for (size_t layer : versions_.to_revert()) std::swap(replica_[layer], other_[layer]);
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
    revert_incomplete();
    if (over_) return;
    if (!alone) return member_.stopped(complete_steps());
    over_ = true;  // a local child writes its checkpoint here
    member_.leave();
  });
}

void SimulatedWorker::save(int64_t step) {
  if (hangs(Work::kSaving)) return;
  send_checkpoint(step);
  member_.saved(step);
}

void SimulatedWorker::send_checkpoint(int64_t step) {
  ++checkpoints_sent_;
  uint32_t place = 0;
  for (const auto& layer : replica_)
    for (const std::vector<float>& tensor : layer) {
      const auto copy = std::make_shared<const std::vector<float>>(tensor);
      send_tensor({.view = member_.view(),
                   .step = static_cast<uint64_t>(step),
                   .key = place++,
                   .chunk = checkpoints_sent_},
                  {std::as_bytes(std::span(*copy)), copy},
                  [this](const FrameHeader& header, const Payload& payload) {
                    member_.send_to_coordinator(header, payload);
                  });
    }
  member_.note_after_bulk({.about = "checkpoint",
                           .step = step,
                           .content = {{"number", checkpoints_sent_}, {"digest", digest()}}});
}

}  // namespace poseidon::comm
