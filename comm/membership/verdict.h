#pragma once

#include <string>

#include "comm/membership/coordinated_job.h"
#include "comm/membership/ending.h"

namespace poseidon::comm {

/// Decides by which loss a job fails, from what the coordinator sees and what members report.
class Verdict {
 public:
  /// Both must outlive it.
  Verdict(CoordinatedJob& job, Ending& ending) : job_(job), ending_(ending) {}

  /// A member is gone. `grace` is how long others may still report what they awaited from it.
  void lose(const MemberRecord& member, const std::string& why, Time grace);
  /// A member reports a loss.
  void hear(const Loss& accusation);
  /// The job fails by this loss, if it is not failing already.
  void accuse(const Loss& loss) { ending_.fail(with_step(loss)); }
  /// The grace period is over.
  void expire() { accuse(suspected_); }

  /// The grace period of the node that is suspected.
  Time grace() const { return grace_; }

 private:
  void suspect(const Loss& loss, Time grace);
  void hear_of_suspected(const Loss& accusation);
  Loss with_step(Loss loss) const;

  CoordinatedJob& job_;
  Ending& ending_;
  Loss suspected_;
  Time grace_{0};
};

}  // namespace poseidon::comm
