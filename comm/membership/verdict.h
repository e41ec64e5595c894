#pragma once

#include <string>
#include <vector>

#include "comm/membership/coordinated_job.h"
#include "comm/membership/ending.h"
#include "comm/membership/failed_joins.h"
#include "comm/membership/regrouping.h"
#include "comm/membership/suspicion.h"

namespace poseidon::comm {

/// The failure decision: decides by which failures a job fails or is reconfigured. Its input is the
/// coordinator's own detection and the members' reports. The coordinator's detection is final.
/// Members' reports about each other are collected for a while, until the coordinator itself would
/// have detected a failure. Then the nodes that explain the reports count as failed.
class Verdict {
 public:
  /// All must outlive it.
  Verdict(CoordinatedJob& job, Regrouping& regrouping, Ending& ending)
      : job_(job), regrouping_(regrouping), ending_(ending) {}

  /// A member has failed. `grace`: how long others may still report what they awaited from it.
  void lose(const MemberRecord& member, const std::string& why, Time grace);
  /// A member reports a failure.
  void hear(const MemberRecord& by, const NodeFailure& accusation);
  /// The job continues without the failed nodes if it can. Otherwise it fails, if it is not failing
  /// already.
  void accuse(std::vector<NodeFailure> losses);
  void accuse(const NodeFailure& loss) { accuse(std::vector{loss}); }
  /// The time for reports has passed.
  void expire() { decide(); }

  /// How long reports are collected.
  Time grace() const { return until_ - job_.entered_at(); }

 private:
  void wait_again(NodeFailure loss);
  void suspect(const NodeFailure& loss, Time grace);
  void collect(const MemberRecord& by, const NodeFailure& accusation);
  void listen_until(Time until);
  bool is_lost(NodeId node) const;
  void decide();
  std::vector<NodeFailure> losses_by(const Suspicion& suspicion) const;
  void end_by(std::vector<NodeFailure> losses);
  void fail(NodeFailure loss);

  CoordinatedJob& job_;
  Regrouping& regrouping_;
  Ending& ending_;
  std::vector<NodeFailure> lost_;  ///< members that the coordinator has detected as failed
  Suspicion suspicion_;            ///< reports about other members
  FailedJoins attempts_;           ///< members that failed before there was a plan
  Time until_{0};
};

}  // namespace poseidon::comm
