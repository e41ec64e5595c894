#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "comm/membership/joiner.h"
#include "comm/wire/messages.h"
#include "comm/wire/outlet.h"

namespace poseidon::comm {

/// How a job ended.
struct Outcome {
  bool finished = false;
  NodeFailure failure;  ///< why it ended, unless finished
  std::optional<int64_t>
      saved_step;  ///< step of the checkpoint that a survivor sent after a failure
};

/// The members that continue in the next view, or with which the job begins. The ranks are those
/// before the change, in ascending order.
struct Survivors {
  std::vector<uint16_t> workers, servers;
};

/// Makes the plan of a job. The classes of this header are the protocol's interfaces to the
/// coordinator's process: the trainer, or a simulated process. Coordinator calls them in its
/// thread.
class JobPlanner {
 public:
  virtual ~JobPlanner() = default;

  /// Returns the data that a member needs to open the job.
  virtual Json job() = 0;
  /// Whether the plan needs a measurement of the link between the workers.
  virtual bool needs_link_rate() { return false; }
  /// Receives the rate of the slowest link, rounded, and the largest processor time per byte of all
  /// workers. `one_host`: all workers share a host, so the link is not a network.
  virtual void measured_link(const LinkRate& /*rate*/, bool /*one_host*/) {}
  /// Called when all members are prepared. If a worker has a later in-memory checkpoint of this run
  /// than the coordinator, requests it and returns the worker's rank; otherwise returns nullopt.
  /// The host calls Coordinator::fetched() when the checkpoint has arrived.
  virtual std::optional<uint16_t> fetch_memory_checkpoint() { return std::nullopt; }
  /// Called if the worker has not sent the requested checkpoint in time. fetch_memory_checkpoint()
  /// must not return this worker again.
  virtual void give_up_memory_checkpoint(uint16_t /*worker*/) {}
  /// Called before the job begins without some members. The present members now have ranks from 0
  /// on, in the order of the argument, which holds their earlier ranks.
  virtual void renumbered(const Survivors&) {}
  /// Returns the plan to publish. If no plan is possible, returns nullopt and reports an error,
  /// which ends the job. All members are prepared, and all workers have these facts. `members`
  /// contains only the members that have joined, with ranks from 0 on.
  virtual std::optional<Json> plan(const std::vector<Fact>& facts, const Survivors& members) = 0;
  /// Whether a plan can be made for these members.
  virtual bool can_continue(const Survivors&) { return false; }
  /// Why this node cannot join the job, although its facts equal the members'; "" if it can.
  virtual std::string objection(const Joiner&) { return ""; }
  /// Returns the plan of the next view, or nullopt, like plan(). The survivors continue after
  /// `step` steps with ranks from 0 on. They have the values of this step, unless restore() has
  /// read a checkpoint. The joiners have the next ranks, and lack the values.
  virtual std::optional<Json> plan_next_view(const Survivors&,
                                             const std::vector<Joiner>& /*joined*/,
                                             int64_t /*step*/) {
    return std::nullopt;
  }
  /// Whether the remaining members must return to a checkpoint. They must if the plan has sums in
  /// flight, which are incomplete without the failed member.
  virtual bool needs_checkpoint() { return false; }
  /// Returns the step of the last written checkpoint on which all workers agree; 0: none.
  virtual int64_t saved_step() { return 0; }
  /// Reads and checks the checkpoint of saved_step(). If it is damaged, reads the checkpoint before
  /// it, and so on. Then the host calls Coordinator::restored() with the step of the intact
  /// checkpoint; 0: none. In the next view, all workers begin with the values of this checkpoint.
  virtual void restore() {}
  /// Returns the approximate time of sending the values of a view to its joiners.
  virtual std::chrono::nanoseconds state_transfer_time() { return std::chrono::nanoseconds(0); }
  /// Returns the number of steps done before the first step of the last plan. Not called before
  /// plan().
  virtual int64_t first_step() { return 0; }
};

/// Receives the checkpoints that the workers of a job send.
class CheckpointReceiver {
 public:
  virtual ~CheckpointReceiver() = default;

  /// Returns the destination of a frame that belongs to a worker's checkpoint.
  virtual Destination destination(uint16_t worker, const FrameHeader& header) = 0;
  virtual void received(uint16_t worker, const FrameHeader& header) = 0;
  /// Returns the name of the tensor at an index of the digests, for messages.
  virtual std::string tensor_name(size_t index) = 0;
  /// The digests of all workers after `step` steps have arrived, and are equal to `digest`.
  virtual void agreed(int64_t step, const std::vector<int64_t>& digest) = 0;
  /// Whether a checkpoint of `step` from a survivor is useful.
  virtual bool wants_checkpoint(int64_t step) = 0;
  /// All tensors of the checkpoint that the coordinator requested from the survivor `worker` have
  /// arrived.
  virtual void saved(uint16_t /*worker*/, int64_t /*step*/) {}
  /// The survivor `worker` cannot send the requested checkpoint.
  virtual void not_saved(uint16_t /*worker*/, const std::string& /*why*/) {}
};

/// Receives the events of a job.
class JobObserver {
 public:
  virtual ~JobObserver() = default;

  virtual void refused(const std::string& address, const std::string& why) = 0;
  virtual void joined(NodeId node, const std::string& address) = 0;
  /// All workers have the same initial values and begin.
  virtual void started() = 0;
  virtual void noted(NodeId node, const Note& note) = 0;
  /// A node makes no progress. Called repeatedly before the node counts as stalled. Also called
  /// when the coordinator no longer waits for the node at the end of the job.
  virtual void slow(NodeId node, const std::string& what) = 0;
  /// A member has failed and the job continues without it, or joiners are admitted.
  virtual void reconfiguring(const NodeFailure& /*failure*/) {}
  /// The job has failed; the members are being informed.
  virtual void failed(const NodeFailure& failure) = 0;
  /// While the job ends: the coordinator no longer waits for this node, which has failed or hangs.
  virtual void given_up(NodeId /*node*/) {}
  virtual void ended(const Outcome& outcome) = 0;
};

/// The process of a coordinator.
struct CoordinatorHost {
  JobPlanner& planner;
  CheckpointReceiver& checkpoints;
  JobObserver& observer;
};

}  // namespace poseidon::comm
