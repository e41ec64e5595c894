#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "comm/membership/newcomer.h"
#include "comm/wire/messages.h"
#include "comm/wire/outlet.h"

namespace poseidon::comm {

/// How a job came to its end.
struct Outcome {
  bool finished = false;
  Loss loss;                          ///< why it ended, unless finished
  std::optional<int64_t> saved_step;  ///< after a loss, the step of the checkpoint that came in
};

/// The members that go on when some are lost, or begin when others have not joined, by their ranks
/// until then, in order.
struct Survivors {
  std::vector<uint16_t> workers, servers;
};

/// Has the plan of a job made. All of these classes are a coordinator's process as the protocol
/// sees it, the trainer's or a simulated one; Coordinator calls them in its thread.
class JobPlanner {
 public:
  virtual ~JobPlanner() = default;

  /// Returns what a member needs to open the job.
  virtual Json job() = 0;
  /// Whether the link between the workers is to be measured before the plan is made.
  virtual bool wants_link() { return false; }
  /// The slowest link's rate, rounded, and the most processor time that a byte costs any of them.
  /// `one_host`: it is not a network.
  virtual void measured_link(const LinkRate& /*rate*/, bool /*one_host*/) {}
  /// All members are prepared. If a worker keeps a later step of this run than the coordinator has,
  /// asks it for that step and returns its rank; Coordinator::fetched() is called when it has come.
  virtual std::optional<uint16_t> fetch_kept_step() { return std::nullopt; }
  /// The worker that was asked has not sent its step in time: it is not asked again.
  virtual void give_up_kept_step(uint16_t /*worker*/) {}
  /// The job is about to begin with these, which have the ranks from 0 on now in their order.
  virtual void renumbered(const Survivors&) {}
  /// Returns the plan to be published, or nothing where none can be made: an error is then
  /// reported, which ends the job. All members are prepared, with these facts on all workers. Where
  /// not all have come, `members` are those who have, with the ranks from 0 on.
  virtual std::optional<Json> plan(const std::vector<Fact>& facts, const Survivors& members) = 0;
  /// Whether a plan can be made for these.
  virtual bool can_go_on(const Survivors&) { return false; }
  /// Why this node, whose facts are those of all, cannot join the job; "" where it can.
  virtual std::string objection(const Newcomer&) { return ""; }
  /// Returns the plan of the next view, by which the survivors, who have the ranks from 0 on there,
  /// and behind them those who have joined, go on after `step` steps; or nothing, as plan() does.
  /// Who has joined lacks the values of that step, and survivors have them.
  virtual std::optional<Json> plan_again(const Survivors&, const std::vector<Newcomer>& /*joined*/,
                                         int64_t /*step*/) {
    return std::nullopt;
  }
  /// Whether those who are left cannot go on with the values that they have: sums that belong to
  /// these are in flight, and with the lost one they are incomplete.
  virtual bool needs_checkpoint() { return false; }
  /// Returns the step of the last checkpoint that is written, and in which all workers agree; 0
  /// where there is none.
  virtual int64_t saved_step() { return 0; }
  /// Reads and checks that checkpoint; if it is damaged, the one before it, and so on. Afterwards
  /// calls Coordinator::restored() with the step of the first intact one, or with 0 if there is
  /// none. The next plan_again() is for workers that begin with its values.
  virtual void restore() {}
  /// About how long the values of a view's joiners are on their way to them.
  virtual std::chrono::nanoseconds handover_time() { return std::chrono::nanoseconds(0); }
  /// Returns the steps done before the first by the last plan. Not called before plan().
  virtual int64_t first_step() { return 0; }
};

/// Takes the checkpoints of a job as its workers send them.
class CheckpointReceiver {
 public:
  virtual ~CheckpointReceiver() = default;

  /// For the frames of a checkpoint from a worker.
  virtual Placement place(uint16_t worker, const FrameHeader& header) = 0;
  virtual void received(uint16_t worker, const FrameHeader& header) = 0;
  /// Returns the name of the tensor at an index of the digests, for messages.
  virtual std::string tensor_name(size_t index) = 0;
  /// The digests of all workers after `step` steps have come and are equal.
  virtual void agreed(int64_t step, const std::vector<int64_t>& digest) = 0;
  /// Whether a checkpoint of `step` is wanted from a survivor.
  virtual bool wants_checkpoint(int64_t step) = 0;
  /// All tensors of that checkpoint have come.
  virtual void saved(uint16_t /*worker*/, int64_t /*step*/) {}
  /// The tensors of that checkpoint will not come.
  virtual void not_saved(uint16_t /*worker*/, const std::string& /*why*/) {}
};

/// Follows the course of a job.
class JobObserver {
 public:
  virtual ~JobObserver() = default;

  /// A node was not let in.
  virtual void refused(const std::string& address, const std::string& why) = 0;
  virtual void joined(NodeId node, const std::string& address) = 0;
  /// All workers have the same first values and begin.
  virtual void started() = 0;
  virtual void noted(NodeId node, const Note& note) = 0;
  /// A node makes no progress. Called now and then before it counts as stalled, and when the end of
  /// the job no longer waits for it.
  virtual void slow(NodeId node, const std::string& what) = 0;
  /// A member is lost, and the job goes on without it; or others join.
  virtual void regrouping(const Loss& /*loss*/) {}
  /// The job has failed; the members are being informed.
  virtual void failed(const Loss& loss) = 0;
  /// The end of the job goes on without this node, which was lost in the meantime or hangs.
  virtual void given_up(NodeId /*node*/) {}
  virtual void ended(const Outcome& outcome) = 0;
};

/// The process that a coordinator is in.
struct CoordinatorHost {
  JobPlanner& planner;
  CheckpointReceiver& checkpoints;
  JobObserver& observer;
};

}  // namespace poseidon::comm
