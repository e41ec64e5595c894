#pragma once

#include <map>

#include "comm/membership/coordinated_job.h"

namespace poseidon::comm {

/// Finds a step that all workers can reach, and has them end after it. Each worker promises not to
/// go beyond its offer; the largest offer can be reached by all.
class HaltVote {
 public:
  explicit HaltVote(CoordinatedJob& job) : job_(job) {}

  /// Asks the workers, once.
  void begin();
  void take(const MemberRecord& member, int64_t offer);

 private:
  CoordinatedJob& job_;
  bool begun_ = false;
  std::map<uint16_t, int64_t> offers_;
};

}  // namespace poseidon::comm
