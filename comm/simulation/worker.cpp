#include "comm/simulation/worker.h"

#include <algorithm>
#include <utility>

#include "comm/exchange/tensor_intake.h"
#include "core/error.h"

namespace poseidon::comm {

using namespace std::chrono_literals;

namespace {

void report_activity(Member& member, const char* doing) {
  member.coordinator().progress({.doing = doing, .unit = ""});
}

bool has_factors(const Plan& plan) {
  return std::ranges::any_of(
      plan.layers, [](const LayerPlan& layer) { return traits_of(layer.scheme).sends_factors(); });
}

/// Sends replica `number` of a checkpoint. Tensor indices continue from one replica to the next.
/// `checkpoint` counts the checkpoints of this worker.
void send_replica(Member& member, int64_t step, uint32_t checkpoint, uint32_t number,
                  const Replica& replica) {
  uint32_t tensors = 0;
  for (const auto& layer : replica) tensors += static_cast<uint32_t>(layer.size());
  uint32_t index = number * tensors;
  for (const auto& layer : replica)
    for (const std::vector<float>& tensor : layer) {
      const auto copy = std::make_shared<const std::vector<float>>(tensor);
      send_tensor({.view = member.view(),
                   .step = static_cast<uint64_t>(step),
                   .key = index++,
                   .chunk = checkpoint},
                  {std::as_bytes(std::span(*copy)), copy},
                  [&member](const FrameHeader& header, const Payload& payload) {
                    member.coordinator().send(header, payload);
                  });
    }
}

bool worker_hangs(const SimulatedWorld& world, const Member& member, Work in) {
  return world.hangs({Role::kWorker, member.rank()}, in);
}

/// Restores the checkpoint of `step`, or the initial values if the job restarts from step 0.
void restore(SimulatedReplica& replica, const SimulatedWorld& world, int64_t step) {
  if (step == 0) return replica.set_initial_values();
  check(world.saved.contains(step),
        "the checkpoint to return to is stored until all workers have returned");
  replica.restore(world.saved.at(step));
}

}  // namespace

SimulatedWorker::SimulatedWorker(SimulatedWorld& world, NodeId id, int node)
    : world_(world),
      node_(node),
      member_(world.member_options(id), world.network.transport(node), *this, payload_),
      replica_(world),
      training_(world, member_, replica_,
                {.after = [this](Time wait,
                                 std::function<void()> action) { after(wait, std::move(action)); },
                 .send_checkpoint = [this] { send_checkpoint(training_.machine().done()); }},
                world.options.seed * 31 + id.rank) {}

void SimulatedWorker::after(Time wait, std::function<void()> action) {
  world_.network.after(node_, wait, [this, stops = stops_, action = std::move(action)] {
    if (stops_ == stops && !over_) action();
  });
}

// ---- up to the first step

void SimulatedWorker::welcomed(uint16_t, const Json&) {
  report_activity(member_, "opening data");
  if (worker_hangs(world_, member_, Work::kPreparing)) return;
  after(1ms, [this] { member_.prepared({{"data", "made up"}}); });
}

/// "values": this worker is a joiner, and will receive its values. "fetch": the coordinator
/// requests this worker's values for joiners. Before the first view, "fetch" requests this worker's
/// in-memory checkpoint. The content of the in-memory checkpoint does not matter here.
void SimulatedWorker::noted(const Note& note) {
  if (note.about == "values") return payload_.expect(replica_.memory(), [this] { ready(); });
  if (note.about != "fetch" || worker_hangs(world_, member_, Work::kSendingCheckpoint)) return;
  if (has_values_) return send_checkpoint(note.step);
  report_activity(member_, "sending its in-memory checkpoint");
  replica_.set_initial_values();
  send_checkpoint(0);
}

/// A joiner of a running job receives its values from another worker, unless all workers begin with
/// the values of a checkpoint.
void SimulatedWorker::planned(const Planned& planned) {
  const auto first_step = planned.plan.value("first_step", int64_t{0});
  const bool restored = planned.plan.value("restored", false);
  const auto receiving = planned.plan.value("receiving", int64_t{0});
  if (member_.rank() >= world_.plan(member_.view()).workers() - receiving) has_values_ = false;
  const bool lacks_values = !restored && !has_values();
  const auto in_flight = planned.plan.value("in_flight", int64_t{0});
  if (restored || lacks_values)
    training_.go_to(first_step, in_flight);
  else if (stopped_)
    training_.go_to(first_step, std::nullopt);
  stopped_ = false;
  plan_ = &world_.plan(member_.view());
  payload_.open(std::make_unique<WorkerExchange>(
      *plan_, member_.rank(),
      WorkerExchange::Options{.view = member_.view(),
                              .carries_payload = world_.options.carries_payload,
                              .first_step = static_cast<uint64_t>(first_step),
                              .seed = world_.options.seed},
      replica_, member_.peers(), [this](uint64_t step, uint32_t layer) {
        // Once the worker has stopped, its replica has reverted or will revert.
        if (!stopped_) training_.arrived(step, layer);
      }));
  replica_.allocate_memory(payload_.exchange()->parts());
  if (restored) restore(replica_, world_, first_step);
  report_activity(member_, "building the net");
  if (worker_hangs(world_, member_, Work::kBuilding)) return;
  after(member_.rank() == 0 ? world_.options.preparation : 1ms, [this, lacks_values, first_step] {
    if (!lacks_values) return ready();
    member_.coordinator().note({.about = "tensors", .step = first_step, .content = Json::object()});
  });
}

void SimulatedWorker::ready() {
  has_values_ = true;
  member_.coordinator().progress({.doing = "waiting for its peers", .unit = {}, .waits = true});
  member_.ready({digest()}, has_factors(*plan_));
}

void SimulatedWorker::started(uint64_t) {
  report_activity(member_, "training");
  training_.begin(*payload_.exchange(), *plan_);
}

// ---- after a node failure

/// Cancels all pending actions of the view (stops_), then leaves the view.
void SimulatedWorker::reconfigure(const NodeFailure&) {
  stopped_ = true;
  ++stops_;
  if (worker_hangs(world_, member_, Work::kStopping)) return;
  after(1ms, [this] {
    const StepMachine& machine = training_.machine();
    member_.coordinator().left_view(machine.complete(), machine.earliest_revertible());
  });
}

void SimulatedWorker::failed(const NodeFailure& failure, bool alone) {
  stopped_ = true;
  ++stops_;
  failure_ = failure;
  if (!worker_hangs(world_, member_, Work::kStopping))
    return world_.network.after(node_, 1ms, [this, alone] { stop(alone); });
  // If the coordinator has failed, no node can end this process, so the process ends itself
  // (trainer/member/exit_watchdog.h).
  if (!alone) return;
  world_.network.after(node_, 5s, [this] {
    over_ = true;
    member_.leave();
  });
}

void SimulatedWorker::stop(bool alone) {
  training_.go_to(training_.machine().complete(), std::nullopt);
  if (over_) return;
  if (!alone) return member_.coordinator().stopped(training_.machine().complete());
  over_ = true;  // a real worker that the coordinator started locally writes a checkpoint here
  member_.leave();
}

void SimulatedWorker::save(int64_t step) {
  if (worker_hangs(world_, member_, Work::kSaving)) return;
  send_checkpoint(step);
  member_.coordinator().saved(step);
}

// ---- checkpoints

/// Sends the values, then the sums of each step in flight.
void SimulatedWorker::send_checkpoint(int64_t step) {
  const StepMachine& machine = training_.machine();
  ++checkpoints_sent_;
  uint32_t number = 0;
  for (const Replica* each : replica_.checkpoint(machine.complete(), machine.done()))
    send_replica(member_, step, checkpoints_sent_, number++, *each);
  member_.coordinator().note_after_bulk(
      {.about = "checkpoint",
       .step = step,
       .content = {{"number", checkpoints_sent_},
                   {"digest", replica_.digests(machine.complete(), machine.done())}}});
}

}  // namespace poseidon::comm
