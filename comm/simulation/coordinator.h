#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/exchange/tensor_intake.h"
#include "comm/membership/checkpoint_queue.h"
#include "comm/membership/coordinator.h"
#include "comm/membership/state_transfer.h"
#include "comm/simulation/model.h"
#include "comm/simulation/world.h"

namespace poseidon::comm {

/// The memory of a received checkpoint, tensor after tensor: a replica, then the sums in flight.
struct ReplicaStore {
  std::vector<Replica> values;
  std::vector<std::span<std::byte>> memory();
};

/// Makes the plans of a simulated job. SimulatedJobOptions contain the first plan.
class SimulatedPlanner final : public JobPlanner {
 public:
  /// `ask` requests a worker's in-memory checkpoint. `read` reads the last intact checkpoint, and
  /// calls restored() later. `begin_view` is called for each view after the first. Its arguments
  /// are the steps done before the view, and whether all workers begin with a checkpoint. It
  /// returns the number of workers that receive the values of worker 0.
  SimulatedPlanner(SimulatedWorld& world, std::function<void(uint16_t)> ask,
                   std::function<void()> read, std::function<size_t(int64_t, bool)> begin_view)
      : world_(world),
        request_checkpoint_(std::move(ask)),
        read_checkpoint_(std::move(read)),
        begin_view_(std::move(begin_view)) {}

  Json job() override { return Json::object(); }
  bool needs_link_rate() override { return world_.options.measures_link; }
  void measured_link(const LinkRate& rate, bool) override { world_.result.link_mbps = rate.mbps; }
  std::optional<uint16_t> fetch_memory_checkpoint() override;
  void give_up_memory_checkpoint(uint16_t) override { fetched_ = true; }
  std::optional<Json> plan(const std::vector<Fact>&, const Survivors& members) override;
  bool can_continue(const Survivors& survivors) override {
    return can_survive(plan_now(), survivors.workers.size(), survivors.servers.size());
  }
  std::optional<Json> plan_next_view(const Survivors& survivors, const std::vector<Joiner>& joined,
                                     int64_t step) override;
  int64_t first_step() override { return first_step_; }
  bool needs_checkpoint() override { return world_.options.plan.staleness > 0; }
  int64_t saved_step() override { return world_.saved.empty() ? 0 : world_.saved.rbegin()->first; }
  void restore() override { read_checkpoint_(); }

  /// The plan of the last view.
  const Plan& plan_now() const { return world_.plan(world_.result.view); }
  bool awaits_memory_checkpoint() const { return world_.options.checkpoint_holder && !fetched_; }
  void fetched() { fetched_ = true; }
  /// Sets the checkpoint with which the next view begins.
  void restored(const SavedStep& saved) { restored_ = saved; }

 private:
  SimulatedWorld& world_;
  const std::function<void(uint16_t)> request_checkpoint_;
  const std::function<void()> read_checkpoint_;
  const std::function<size_t(int64_t, bool)> begin_view_;
  int64_t first_step_ = 0;
  bool fetched_ = false;
  std::optional<SavedStep> restored_;  ///< the checkpoint with which the next view begins
};

/// The process of a simulated coordinator. It records the events of the job. As in a real job,
/// comm::CheckpointQueue decides which checkpoints are written. The job's result contains the
/// digests of the written checkpoints.
class SimulatedCoordinator final : public CheckpointReceiver, public JobObserver {
 public:
  SimulatedCoordinator(SimulatedWorld& world, int node);

  Coordinator& coordinator() { return coordinator_; }

  void refused(const std::string&, const std::string& why) override {
    world_.result.warnings.push_back(why);
  }
  void joined(NodeId, const std::string&) override {}
  void reconfiguring(const NodeFailure& failure) override {
    world_.result.reconfigurations.push_back(failure);
  }
  void started() override { world_.result.began = true; }
  void noted(NodeId node, const Note& note) override;
  void agreed(int64_t step, const std::vector<int64_t>& digest) override;
  std::string tensor_name(size_t) override { return "all values"; }
  Destination destination(uint16_t worker, const FrameHeader& header) override {
    return intake_.destination(worker, header);
  }
  void received(uint16_t worker, const FrameHeader& header) override;
  void failed(const NodeFailure& failure) override;
  bool wants_checkpoint(int64_t step) override { return !diverged_ && queue_.wants(step); }
  void slow(NodeId, const std::string& what) override { world_.result.warnings.push_back(what); }
  void given_up(NodeId node) override { world_.result.given_up.push_back(node); }
  void ended(const Outcome& outcome) override {
    world_.result.outcome = outcome;
    world_.result.duration = world_.network.now();
  }

 private:
  size_t begin_view(int64_t step, bool restores);
  void read_checkpoint();
  std::shared_ptr<ReplicaStore> make_store() const;
  void take_checkpoint(uint16_t worker, const Note& note);
  void transfer_state_to(uint16_t worker);
  void write(int64_t step, const ReplicaStore& store, const std::vector<int64_t>& digest);
  void attempt(const std::function<void()>& action);

  SimulatedWorld& world_;
  const int node_;
  SimulatedPlanner planner_;
  Coordinator coordinator_;
  CheckpointIntake<ReplicaStore> intake_;
  CheckpointQueue queue_;
  bool failed_ = false, diverged_ = false;
  StateTransfer state_transfer_;
};

}  // namespace poseidon::comm
