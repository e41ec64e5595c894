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

/// Receives the events of a job that change the course of the run, in the main thread.
class JobWatcher {
 public:
  virtual ~JobWatcher() = default;
  /// The job fails with this failure.
  virtual void lost(const comm::NodeFailure& node_failure) = 0;
  /// The job continues without a failed member, or with joiners.
  virtual void reconfiguring(const comm::NodeFailure& node_failure,
                             ViewRecords::Clock::time_point when) = 0;
  /// Members of the next view: `left` have the ranks from 0 on in their order, followed by
  /// `joined`.
  virtual void reconfigured(const comm::Survivors& left,
                            const std::vector<comm::Joiner>& joined) = 0;
  /// The job ends without waiting for this node.
  virtual void given_up(comm::NodeId node) = 0;
  virtual void ended(const comm::Outcome& outcome) = 0;
};

/// The objects of a coordinator that live in its I/O thread.
struct CoordinatorSide {
  RunPlan plan;
  CheckpointOffers kept;
  CheckpointReception reception;
  comm::StateTransfer state_transfer;
  std::optional<comm::SavedStep> restored;   ///< the checkpoint from which the next view begins
  comm::Coordinator* coordinator = nullptr;  ///< set before the thread begins

  /// The coordinator has asked the members to leave their view, and the next view has not begun.
  bool is_between_views() const {
    return coordinator->state() == comm::Coordinator::State::kReconfiguring;
  }
};

/// Shared by the sessions of a coordinator's I/O thread: the job, and access to the main thread.
/// The main thread runs the tasks posted to the inbox; they use records and watcher. All must
/// outlive the sessions.
struct CoordinatorSetting {
  const Job& job;
  const RunOptions& options;
  const JoinOptions& join_options;
  Json job_message;  ///< the JobMessage with which a member opens the job
  std::string run;   ///< RunDirectory::id()
  bool goes_on;      ///< resume from the latest step that any process has
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
