#pragma once

#include <string>
#include <vector>

#include "comm/membership/coordinated_job.h"
#include "comm/membership/ending.h"
#include "comm/membership/regrouping.h"

namespace poseidon::comm {

/// Decides by which loss a job fails, or regroups, from what the coordinator sees and what members
/// report.
class Verdict {
 public:
  /// All must outlive it.
  Verdict(CoordinatedJob& job, Regrouping& regrouping, Ending& ending)
      : job_(job), regrouping_(regrouping), ending_(ending) {}

  /// A member is gone. `grace` is how long others may still report what they awaited from it.
  void lose(const MemberRecord& member, const std::string& why, Time grace);
  /// A member reports a loss.
  void hear(const Loss& accusation);
  /// The job goes on without the lost node where it can, or fails if it is not failing already.
  void accuse(const Loss& loss);
  /// The grace period is over.
  void expire() { accuse(suspected_); }

  /// The grace period of the node that is suspected.
  Time grace() const { return grace_; }

 private:
  void suspect(const Loss& loss, Time grace);
  void hear_of_suspected(const Loss& accusation);
  Loss with_step(Loss loss) const;

  CoordinatedJob& job_;
  Regrouping& regrouping_;
  Ending& ending_;
  Loss suspected_;
  std::vector<Loss> lost_beside_;  ///< in the same grace period
  Time grace_{0};
};

}  // namespace poseidon::comm
