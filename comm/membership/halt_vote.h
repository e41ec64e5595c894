#pragma once

#include <map>

#include "comm/membership/coordinated_job.h"

namespace poseidon::comm {

/// Finds a step that all workers can reach, and has them end after it, or wait there for those who
/// join. Each worker promises not to go beyond its offer; the largest offer can be reached by
/// all.
class HaltVote {
 public:
  explicit HaltVote(CoordinatedJob& job) : job_(job) {}

  /// Asks the workers after which step to end, once in each view.
  void begin();
  /// Asks them behind which step to wait, unless they are to end.
  void pause();
  /// What was offered does not count any more.
  void begin_next_view();
  /// Asks the workers if they are to end.
  void ask();
  void take(const MemberRecord& member, int64_t offer);

 private:
  void query();

  CoordinatedJob& job_;
  bool begun_ = false, asked_ = false;
  std::map<uint16_t, int64_t> offers_;
};

}  // namespace poseidon::comm
