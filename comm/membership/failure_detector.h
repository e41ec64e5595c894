#pragma once

#include <string>
#include <vector>

#include "comm/membership/coordinated_job.h"
#include "comm/membership/job_shutdown.h"
#include "comm/membership/join_backoff.h"
#include "comm/membership/reconfiguration.h"
#include "comm/membership/suspicion.h"

namespace poseidon::comm {

/// Decides which nodes have failed, and whether the job then fails or is reconfigured. The input is
/// the coordinator's own detection and the members' reports. The coordinator's detection is final.
/// Reports of members about each other are collected until the coordinator itself would have
/// detected a failure. If it has detected none, a minimal set of nodes that explains the reports
/// counts as failed (Suspicion).
class FailureDetector {
 public:
  /// All arguments must outlive this object.
  FailureDetector(CoordinatedJob& job, Reconfiguration& reconfiguration, JobShutdown& job_shutdown)
      : job_(job), reconfiguration_(reconfiguration), job_shutdown_(job_shutdown) {}

  /// Handles the failure of `member`, which the coordinator has detected. `grace`: how long other
  /// members may still report what they awaited from it.
  void node_failed(const MemberRecord& member, const std::string& why, Time grace);
  /// Handles a failure report that the member `by` has sent.
  void receive_report(const MemberRecord& by, const NodeFailure& report);
  /// Reconfigures the job without the failed nodes if the job can continue. Otherwise the job
  /// fails.
  void declare_failed(std::vector<NodeFailure> failures);
  void declare_failed(const NodeFailure& failure) { declare_failed(std::vector{failure}); }
  /// Decides by the collected reports. Called when the time for reports has passed.
  void expire() { resolve(); }

  /// How long kSuspecting collects reports, from its start.
  Time grace() const { return until_ - job_.entered_at(); }

 private:
  void await_replacement(NodeFailure failure);
  void suspect(const NodeFailure& failure, Time grace);
  void collect(const MemberRecord& by, const NodeFailure& report);
  void collect_until(Time until);
  bool has_failed(NodeId node) const;
  void resolve();
  std::vector<NodeFailure> failures_by(const Suspicion& suspicion) const;
  void reconfigure_or_fail(std::vector<NodeFailure> failures);
  void fail(NodeFailure failure);

  CoordinatedJob& job_;
  Reconfiguration& reconfiguration_;
  JobShutdown& job_shutdown_;
  std::vector<NodeFailure>
      detected_failures_;  ///< members that the coordinator has detected as failed
  Suspicion suspicion_;    ///< reports about other members
  JoinBackoff attempts_;   ///< counts failures of members before there is a plan
  Time until_{0};
};

}  // namespace poseidon::comm
