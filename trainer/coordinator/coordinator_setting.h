#pragma once

#include <optional>
#include <string>

#include "comm/membership/coordinator.h"
#include "comm/membership/handover.h"
#include "core/inbox.h"
#include "trainer/coordinator/checkpoint_reception.h"
#include "trainer/coordinator/cluster_records.h"
#include "trainer/coordinator/kept_offers.h"
#include "trainer/coordinator/launcher.h"
#include "trainer/coordinator/run_plan.h"

namespace poseidon::trainer {

/// What the course of a job means to the main thread, beside what is recorded of it.
class JobWatcher {
 public:
  virtual ~JobWatcher() = default;
  /// By which the job fails.
  virtual void lost(const comm::Loss& loss) = 0;
  /// A member is lost, and the job goes on without it; or others join.
  virtual void regrouping(const comm::Loss& loss, ViewRecords::Clock::time_point when) = 0;
  /// These go on, with the ranks from 0 on in their order, and behind them those who have joined.
  virtual void regrouped(const comm::Survivors& left,
                         const std::vector<comm::Newcomer>& joined) = 0;
  /// The end of the job does not wait for this node.
  virtual void given_up(comm::NodeId node) = 0;
  virtual void ended(const comm::Outcome& outcome) = 0;
};

/// The objects of a coordinator that live in its I/O thread.
struct CoordinatorSide {
  RunPlan plan;
  KeptOffers kept;
  CheckpointReception reception;
  comm::Handover handover;
  std::optional<comm::SavedStep> restored;   ///< the checkpoint that the next view begins with
  comm::Coordinator* coordinator = nullptr;  ///< set before the thread begins

  /// The members have been told to leave their view, and know no other yet.
  bool is_between_views() const {
    return coordinator->state() == comm::Coordinator::State::kRegrouping;
  }
};

/// What the sessions of a coordinator's I/O thread have in common: the job, and the way to the main
/// thread, which runs on records and watcher what is posted to the inbox. All must outlive them.
struct CoordinatorSetting {
  const Job& job;
  const RunOptions& options;
  const Gathering& gathering;
  Json job_message;  ///< what a member needs to open the job
  std::string run;   ///< RunDirectory::id()
  bool goes_on;      ///< with the latest step of this run that anybody has
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
