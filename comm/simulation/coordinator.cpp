#include "comm/simulation/coordinator.h"

#include <algorithm>
#include <span>

#include "core/error.h"

namespace poseidon::comm {

using namespace std::chrono_literals;

std::vector<std::span<std::byte>> ReplicaStore::memory() {
  std::vector<std::span<std::byte>> tensors;
  for (Replica& replica : values)
    for (auto& layer : replica)
      for (std::vector<float>& tensor : layer)
        tensors.push_back(std::as_writable_bytes(std::span(tensor)));
  return tensors;
}

SimulatedCoordinator::SimulatedCoordinator(SimulatedWorld& world, int node)
    : world_(world),
      node_(node),
      coordinator_({.workers = static_cast<uint16_t>(world.options.plan.workers()),
                    .servers = static_cast<uint16_t>(world.options.plan.servers()),
                    .facts = {{"build", "simulated"}},
                    .timeout = world.options.timeout,
                    .stall_timeout = world.options.stall_timeout,
                    .gather_timeout = 3 * std::max<Time>(10s, world.options.timeout)},
                   world.network.transport(node), {*this, *this, *this}),
      intake_([this] { return make_store(); }),
      queue_([this](uint16_t, int64_t step) { world_.result.written.push_back(step); }) {
  world.network.transport(node).present_as(
      {.role = Role::kCoordinator, .rank = 0, .view = 1, .job = {std::byte{1}}, .address = ""});
}

std::shared_ptr<ReplicaStore> SimulatedCoordinator::make_store() const {
  const auto replicas = static_cast<size_t>(world_.options.plan.staleness) + 1;
  return std::make_shared<ReplicaStore>(
      ReplicaStore{std::vector<Replica>(replicas, world_.model.first_values())});
}

void SimulatedCoordinator::noted(NodeId node, const Note& note) {
  if (note.about == "checkpoint") take_checkpoint(node.rank, note);
}

/// A step that a worker has kept is asked for before the first step, and counts by itself.
void SimulatedCoordinator::take_checkpoint(uint16_t worker, const Note& note) {
  auto digest = note.content.at("digest").get<std::vector<int64_t>>();
  const auto count = [&](ReplicaStore& store) {
    return store.memory().size() / store.values.size() * digest.size();
  };
  const auto store =
      intake_.take(worker, note.content.at("number").get<uint32_t>(), note.step, count);
  if (world_.options.keeper && !fetched_) {
    fetched_ = true;
    write(note.step, *store, digest);
    return coordinator_.fetched();
  }
  attempt([&] {
    queue_.take(
        note.step,
        {.worker = worker, .digest = digest, .write = [this, step = note.step, store, digest] {
           write(step, *store, digest);
         }});
  });
}

/// What came must be what its sender says. A run that goes on with it applies the sums in flight.
void SimulatedCoordinator::write(int64_t step, const ReplicaStore& store,
                                 const std::vector<int64_t>& digest) {
  Replica values = store.values[0];
  for (size_t i = 0; i < digest.size(); ++i)
    if (ComputeModel::digest(store.values[i]) != digest[i])
      throw RunError(text("step ", step, ": the checkpoint is not what the workers agreed on"));
  for (size_t i = 1; i < digest.size(); ++i) ComputeModel::update(values, store.values[i]);
  world_.result.checkpoints[step] = ComputeModel::digest(values);
  if (!failed_ && step > 0 && !world_.result.agreed.contains(step))
    world_.result.unagreed.push_back(step);
}

/// What cannot be written ends the job.
void SimulatedCoordinator::attempt(const std::function<void()>& action) {
  try {
    action();
  } catch (const RunError& error) {
    world_.network.after(node_, Time{0}, [this, why = std::string(error.what())] {
      coordinator_.report_error(why);
    });
  }
}

void SimulatedCoordinator::agreed(int64_t step, const std::vector<int64_t>& digest) {
  world_.result.agreed[step] = static_cast<uint32_t>(digest[0]);
  attempt([&] { queue_.agreed(step, digest); });
}

void SimulatedCoordinator::failed(const Loss& loss) {
  failed_ = true;
  drifted_ = !survivors_count(loss);
  if (!drifted_) attempt([&] { queue_.trust_survivors(); });
}

std::optional<uint16_t> SimulatedCoordinator::fetch_kept_step() {
  const std::optional<uint16_t> keeper = fetched_ ? std::nullopt : world_.options.keeper;
  if (keeper) coordinator_.note(*keeper, {.about = "fetch", .content = Json::object()});
  return keeper;
}

}  // namespace poseidon::comm
