#pragma once

#include <optional>
#include <string>

#include "comm/membership/coordinator.h"
#include "comm/membership/state_transfer.h"
#include "core/inbox.h"
#include "trainer/coordinator/checkpoint_offers.h"
#include "trainer/coordinator/checkpoint_reception.h"
#include "trainer/coordinator/cluster_records.h"
#include "trainer/coordinator/launcher.h"
#include "trainer/coordinator/run_plan.h"

namespace poseidon::trainer {

/// Receives the events that change the course of a job. Called in the main thread.
class JobWatcher {
 public:
  virtual ~JobWatcher() = default;
  /// The job has failed because of this failure.
  virtual void node_failed(const comm::NodeFailure& node_failure) = 0;
  /// The job continues without a member that has failed or left, or with joiners.
  virtual void reconfiguring(const comm::NodeFailure& node_failure,
                             ViewRecords::Clock::time_point when) = 0;
  /// The next view has these members: first the remaining ones, then `joined`. `left` lists the
  /// previous ranks of the remaining members, in the order of their new ranks.
  virtual void reconfigured(const comm::Survivors& left,
                            const std::vector<comm::Joiner>& joined) = 0;
  /// The job is ending, and the coordinator no longer waits for this node.
  virtual void given_up(comm::NodeId node) = 0;
  virtual void ended(const comm::Outcome& outcome) = 0;
};

/// The objects of a coordinator that live in its I/O thread.
struct CoordinatorSide {
  RunPlan plan;
  CheckpointOffers kept;
  CheckpointReception reception;
  comm::StateTransfer state_transfer;
  /// Checkpoint to which the next view returns; step 0: the initial values; empty: neither.
  std::optional<comm::SavedStep> restored;
  comm::Coordinator* coordinator = nullptr;  ///< set before the thread begins

  /// Whether the coordinator has asked the members to leave their view, and the next view has not
  /// begun.
  bool is_between_views() const {
    return coordinator->state() == comm::Coordinator::State::kReconfiguring;
  }
};

/// The job, and access to the main thread, for the sessions in a coordinator's I/O thread. The main
/// thread runs the tasks posted to `inbox`. Only these tasks may use `watcher` and `records`.
/// Exception: saved_step() and wants() of the checkpoints. All references must outlive the
/// sessions.
struct CoordinatorSetting {
  const Job& job;
  const RunOptions& options;
  const JoinOptions& join_options;
  Json job_message;  ///< JobMessage: the data with which a member opens the job
  std::string run;   ///< RunDirectory::id()
  bool goes_on;  ///< resume from the latest step that any process has, not from a given checkpoint
  Inbox& inbox;
  ClusterRecords& records;
  JobWatcher& watcher;

  void inform(const std::string& message) const {
    inbox.post([this, message] { records.console().info(message); });
  }
  void warn(const std::string& message) const {
    inbox.post([this, message] { records.console().warning(message); });
  }
};

}  // namespace poseidon::trainer
