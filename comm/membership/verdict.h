#pragma once

#include <string>
#include <vector>

#include "comm/membership/coordinated_job.h"
#include "comm/membership/ending.h"
#include "comm/membership/failed_joins.h"
#include "comm/membership/regrouping.h"
#include "comm/membership/suspicion.h"

namespace poseidon::comm {

/// Decides by which losses a job fails, or regroups, from what the coordinator sees and what
/// members report. What the coordinator sees counts: a member that it has lost is lost. What
/// members report of each other is collected for a while, until the coordinator would have seen a
/// death itself, and then those are lost who explain it.
class Verdict {
 public:
  /// All must outlive it.
  Verdict(CoordinatedJob& job, Regrouping& regrouping, Ending& ending)
      : job_(job), regrouping_(regrouping), ending_(ending) {}

  /// A member is gone. `grace` is how long others may still report what they awaited from it.
  void lose(const MemberRecord& member, const std::string& why, Time grace);
  /// A member reports a loss.
  void hear(const MemberRecord& by, const Loss& accusation);
  /// The job goes on without the lost node where it can, or fails if it is not failing already.
  void accuse(std::vector<Loss> losses);
  void accuse(const Loss& loss) { accuse(std::vector{loss}); }
  /// Members have been listened to for long enough.
  void expire() { decide(); }

  /// How long they are listened to.
  Time grace() const { return until_ - job_.entered_at(); }

 private:
  void wait_again(Loss loss);
  void suspect(const Loss& loss, Time grace);
  void collect(const MemberRecord& by, const Loss& accusation);
  void listen_until(Time until);
  bool is_lost(NodeId node) const;
  void decide();
  std::vector<Loss> losses_by(const Suspicion& suspicion) const;
  void end_by(std::vector<Loss> losses);
  void fail(Loss loss);

  CoordinatedJob& job_;
  Regrouping& regrouping_;
  Ending& ending_;
  std::vector<Loss> lost_;  ///< members that the coordinator has lost while it listens
  Suspicion suspicion_;     ///< what it has heard of others meanwhile
  FailedJoins attempts_;    ///< members that were lost before there was a plan
  Time until_{0};
};

}  // namespace poseidon::comm
