#include "comm/simulation/coordinator.h"

#include <algorithm>
#include <span>
#include <utility>

#include "comm/wire/address.h"
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

// ---- plans

std::optional<uint16_t> SimulatedPlanner::fetch_memory_checkpoint() {
  if (!awaits_memory_checkpoint()) return std::nullopt;
  request_checkpoint_(*world_.options.checkpoint_holder);
  return world_.options.checkpoint_holder;
}

std::optional<Json> SimulatedPlanner::plan(const std::vector<Fact>&, const Survivors& members) {
  const Plan& all = world_.options.plan;
  if (std::ssize(members.workers) < all.workers() || std::ssize(members.servers) < all.servers())
    world_.later_plans[1] =
        next_plan(all, {members.workers, members.servers, {}, {}}, int64_t{2} << 20);
  return Json::object();
}

std::optional<Json> SimulatedPlanner::plan_next_view(const Survivors& survivors,
                                                     const std::vector<Joiner>& joined,
                                                     int64_t step) {
  const std::optional<SavedStep> restored = std::exchange(restored_, std::nullopt);
  const size_t receiving = begin_view_(step, restored.has_value());
  NextMembers members{survivors.workers, survivors.servers, {}, {}};
  for (const Joiner& joiner : joined)
    (joiner.node.role == Role::kWorker ? members.joined_workers : members.joined_servers)
        .push_back(joiner.node.rank);
  world_.result.joined += joined.size();
  for (const Joiner& joiner : joined)
    for (const NodeFailure& failure : world_.result.reconfigurations)
      if (failure.kind == NodeFailure::Kind::kDiverged &&
          host_of(failure.address) == host_of(joiner.address))
        ++world_.result.admitted_again;
  world_.result.began_after.push_back(step);
  const Plan& plan = plan_now();
  world_.later_plans.emplace(++world_.result.view, next_plan(plan, members, int64_t{2} << 20));
  first_step_ = step;
  return Json{{"first_step", step},
              {"restored", restored.has_value()},
              {"receiving", receiving},
              {"in_flight", restored ? restored->in_flight : 0}};
}

// ---- the other functions of a coordinator

SimulatedCoordinator::SimulatedCoordinator(SimulatedWorld& world, int node)
    : world_(world),
      node_(node),
      planner_(
          world,
          [this](uint16_t checkpoint_holder) {
            coordinator_.note(checkpoint_holder, {.about = "fetch", .content = Json::object()});
          },
          [this] { read_checkpoint(); },
          [this](int64_t step, bool restores) { return begin_view(step, restores); }),
      coordinator_({.workers = static_cast<uint16_t>(world.options.plan.workers()),
                    .servers = static_cast<uint16_t>(world.options.plan.servers()),
                    .facts = {{"build", "simulated"}},
                    .timeout = world.options.timeout,
                    .stall_timeout = world.options.stall_timeout,
                    .gather_timeout = 3 * std::max<Time>(10s, world.options.timeout),
                    .gather = world.options.gather,
                    .recovers = world.options.recovers,
                    .min_workers = world.options.min_workers,
                    .max_workers = world.options.max_workers,
                    .max_servers = world.options.max_servers},
                   world.network.transport(node), {planner_, *this, *this}),
      intake_([this] { return make_store(); }),
      queue_([this](uint16_t, int64_t step) { world_.result.written.push_back(step); }) {
  world.network.transport(node).present_as(
      {.role = Role::kCoordinator, .rank = 0, .view = 1, .job = {std::byte{1}}, .address = ""});
}

std::shared_ptr<ReplicaStore> SimulatedCoordinator::make_store() const {
  const auto replicas = static_cast<size_t>(world_.options.plan.staleness) + 1;
  return std::make_shared<ReplicaStore>(
      ReplicaStore{std::vector<Replica>(replicas, world_.model.initial_values())});
}

void SimulatedCoordinator::noted(NodeId node, const Note& note) {
  if (note.about == "checkpoint") take_checkpoint(node.rank, note);
  if (note.about == "tensors") transfer_state_to(node.rank);
}

void SimulatedCoordinator::transfer_state_to(uint16_t worker) {
  if (!state_transfer_.is_due() || !state_transfer_.add(worker)) return;
  for (const uint16_t receiver : state_transfer_.receivers())
    coordinator_.note(
        receiver, {.about = "values", .step = planner_.first_step(), .content = Json::object()});
  coordinator_.note(0,
                    {.about = "fetch", .step = planner_.first_step(), .content = Json::object()});
}

void SimulatedCoordinator::received(uint16_t worker, const FrameHeader& header) {
  const std::shared_ptr<ReplicaStore> store = intake_.received(worker);
  if (store == nullptr) return;
  const std::span<std::byte> tensor = store->memory()[header.key];
  state_transfer_.pass_on(worker, header, {tensor.subspan(header.offset, header.length), store},
                          [this](uint16_t to, const FrameHeader& onward, const Payload& slice) {
                            coordinator_.send(to, onward, slice);
                          });
}

/// Handles a checkpoint that `worker` has sent completely. An in-memory checkpoint was requested
/// before the first step, and needs no agreement. In a state transfer nothing is written.
void SimulatedCoordinator::take_checkpoint(uint16_t worker, const Note& note) {
  auto digest = note.content.at("digest").get<std::vector<int64_t>>();
  const auto count = [&](ReplicaStore& store) {
    return store.memory().size() / store.values.size() * digest.size();
  };
  const auto store =
      intake_.take(worker, note.content.at("number").get<uint32_t>(), note.step, count);
  if (planner_.awaits_memory_checkpoint()) {
    planner_.fetched();
    write(note.step, *store, digest);
    return coordinator_.fetched();
  }
  if (state_transfer_.is_under_way()) return state_transfer_.end();
  attempt([&] {
    queue_.take(note.step, {.worker = worker,
                            .digest = digest,
                            .in_flight = std::ssize(digest) - 1,
                            .write = [this, step = note.step, store, digest] {
                              write(step, *store, digest);
                            }});
  });
}

/// Records a checkpoint as written. Its content must match the digests of its sender. The recorded
/// digest includes the updates with the sums in flight, because a run that continues from this
/// checkpoint applies these sums.
void SimulatedCoordinator::write(int64_t step, const ReplicaStore& store,
                                 const std::vector<int64_t>& digest) {
  Replica values = store.values[0];
  for (size_t i = 0; i < digest.size(); ++i)
    if (ComputeModel::digest(store.values[i]) != digest[i])
      throw RunError(text("step ", step,
                          ": the checkpoint differs from the values that the workers agreed on"));
  for (size_t i = 1; i < digest.size(); ++i) ComputeModel::update(values, store.values[i]);
  world_.result.checkpoints[step] = ComputeModel::digest(values);
  const auto first_sum = store.values.begin() + 1;
  if (step > 0)
    world_.saved[step] = {
        .step = step,
        .values = store.values[0],
        .sums = {first_sum, first_sum + static_cast<std::ptrdiff_t>(digest.size()) - 1}};
  if (!failed_ && step > 0 && !world_.result.agreed.contains(step))
    world_.result.unagreed.push_back(step);
}

/// Runs `action`. If it throws RunError, because a checkpoint cannot be written, the job fails.
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

void SimulatedCoordinator::failed(const NodeFailure& failure) {
  failed_ = true;
  state_transfer_.end();
  diverged_ = !survivors_are_valid(failure);
  if (!diverged_) attempt([&] { queue_.trust_survivors(); });
}

/// Reads the last checkpoint, which takes some time. If the latest checkpoint is damaged, the last
/// intact checkpoint before it is used.
void SimulatedCoordinator::read_checkpoint() {
  SavedStep held = queue_.hold();
  const auto is_damaged = [this](int64_t step) {
    return std::ranges::find(world_.options.damaged, step) != world_.options.damaged.end();
  };
  std::erase_if(world_.saved, [&](const auto& entry) { return is_damaged(entry.first); });
  if (is_damaged(held.step)) {
    held = {};
    if (!world_.saved.empty()) {
      const SimulatedCheckpoint& last = world_.saved.rbegin()->second;
      held = {.step = last.step, .in_flight = std::ssize(last.sums)};
    }
    queue_.begin_from(held);
  }
  world_.network.after(node_, 1ms, [this, held] {
    planner_.restored(held);
    coordinator_.restored(held.step);
  });
}

/// Begins a view after `step` steps, and returns the number of workers that receive values. Drops
/// checkpoints in flight, because other workers may have these ranks in this view.
size_t SimulatedCoordinator::begin_view(int64_t step, bool restores) {
  for (uint16_t worker = 0; worker < planner_.plan_now().workers(); ++worker)
    intake_.forget(worker);
  queue_.revert_to(step);
  if (restores) queue_.release();
  const size_t receiving = restores ? 0 : coordinator_.members().count_without_values();
  state_transfer_.begin_view(coordinator_.view(), receiving);
  return receiving;
}

}  // namespace poseidon::comm
