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
  NodeFailure failure;                ///< why it ended, unless finished
  std::optional<int64_t> saved_step;  ///< after a failure: the step of the received checkpoint
};

/// The members that continue after a failure, or that begin without the missing ones. These are
/// their previous ranks, in order.
struct Survivors {
  std::vector<uint16_t> workers, servers;
};

/// Makes the plan of a job. The classes of this header are the coordinator's process as the
/// protocol sees it, the trainer's or a simulated one. Coordinator calls them in its thread.
class JobPlanner {
 public:
  virtual ~JobPlanner() = default;

  /// Returns the data that a member needs to open the job.
  virtual Json job() = 0;
  /// Whether to measure the link between the workers before the plan is made.
  virtual bool needs_link_rate() { return false; }
  /// Receives the rate of the slowest link, rounded, and the largest processor time per byte of all
  /// workers. `one_host`: all workers share a host, so the link is not a network.
  virtual void measured_link(const LinkRate& /*rate*/, bool /*one_host*/) {}
  /// All members are prepared. If a worker holds a later in-memory checkpoint of this run than the
  /// coordinator, requests it and returns the worker's rank. Coordinator::fetched() must be called
  /// when it has arrived.
  virtual std::optional<uint16_t> fetch_memory_checkpoint() { return std::nullopt; }
  /// The requested worker has not sent its checkpoint in time. It must not be asked again.
  virtual void give_up_memory_checkpoint(uint16_t /*worker*/) {}
  /// The job is about to begin with these members. Their new ranks count from 0 in this order.
  virtual void renumbered(const Survivors&) {}
  /// Returns the plan to publish, or nothing if none can be made; an error is then reported, which
  /// ends the job. All members are prepared, and all workers have these facts. If members are
  /// missing, `members` are the present ones, with ranks from 0 on.
  virtual std::optional<Json> plan(const std::vector<Fact>& facts, const Survivors& members) = 0;
  /// Whether a plan can be made for these members.
  virtual bool can_continue(const Survivors&) { return false; }
  /// Why this node cannot join the job, although its facts equal the members'; "" if it can.
  virtual std::string objection(const Joiner&) { return ""; }
  /// Returns the plan of the next view, or nothing, as plan() does. The survivors have ranks from 0
  /// on and continue after `step` steps; the joiners have the ranks after them. Survivors have the
  /// values of that step, and joiners lack them.
  virtual std::optional<Json> plan_next_view(const Survivors&,
                                             const std::vector<Joiner>& /*joined*/,
                                             int64_t /*step*/) {
    return std::nullopt;
  }
  /// Whether the remaining members cannot continue with their values. This is so if sums in flight
  /// belong to these values and are incomplete without the failed member.
  virtual bool needs_checkpoint() { return false; }
  /// Returns the step of the last written checkpoint on which all workers agree; 0: none.
  virtual int64_t saved_step() { return 0; }
  /// Reads and checks that checkpoint; if it is damaged, the one before it, and so on. Then calls
  /// Coordinator::restored() with the step of the first intact one; 0: none. The next
  /// plan_next_view() is for workers that begin with its values.
  virtual void restore() {}
  /// The approximate time in which the values of a view reach its joiners.
  virtual std::chrono::nanoseconds state_transfer_time() { return std::chrono::nanoseconds(0); }
  /// Returns the number of steps done before the first step of the last plan. Not called before
  /// plan().
  virtual int64_t first_step() { return 0; }
};

/// Receives the checkpoints that the workers of a job send.
class CheckpointReceiver {
 public:
  virtual ~CheckpointReceiver() = default;

  /// For the frames of a checkpoint from a worker.
  virtual Destination destination(uint16_t worker, const FrameHeader& header) = 0;
  virtual void received(uint16_t worker, const FrameHeader& header) = 0;
  /// Returns the name of the tensor at an index of the digests, for messages.
  virtual std::string tensor_name(size_t index) = 0;
  /// The digests of all workers after `step` steps have arrived and are equal.
  virtual void agreed(int64_t step, const std::vector<int64_t>& digest) = 0;
  /// Whether a checkpoint of `step` from a survivor is useful.
  virtual bool wants_checkpoint(int64_t step) = 0;
  /// All tensors of that checkpoint have arrived.
  virtual void saved(uint16_t /*worker*/, int64_t /*step*/) {}
  /// The tensors of that checkpoint will not arrive.
  virtual void not_saved(uint16_t /*worker*/, const std::string& /*why*/) {}
};

/// Observes the course of a job.
class JobObserver {
 public:
  virtual ~JobObserver() = default;

  /// A node was refused.
  virtual void refused(const std::string& address, const std::string& why) = 0;
  virtual void joined(NodeId node, const std::string& address) = 0;
  /// All workers have the same initial values and begin.
  virtual void started() = 0;
  virtual void noted(NodeId node, const Note& note) = 0;
  /// A node makes no progress. Called repeatedly before the node counts as stalled, and when the
  /// end of the job no longer waits for it.
  virtual void slow(NodeId node, const std::string& what) = 0;
  /// A member has failed and the job continues without it, or joiners are admitted.
  virtual void reconfiguring(const NodeFailure& /*failure*/) {}
  /// The job has failed; the members are being informed.
  virtual void failed(const NodeFailure& failure) = 0;
  /// The end of the job continues without this node, which has failed or hangs.
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
