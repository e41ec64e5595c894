#pragma once

#include <map>

#include "comm/membership/coordinated_job.h"

namespace poseidon::comm {

/// Finds a step that all workers can reach. All workers end after this step, or wait after it for
/// joiners. Each worker promises not to go beyond its offer, so all can reach the largest offer.
class HaltVote {
 public:
  explicit HaltVote(CoordinatedJob& job) : job_(job) {}

  /// Asks the workers, once in each view, for the earliest step after which they can end. Does
  /// nothing if all workers have finished.
  void begin();
  /// Asks the workers for the earliest step after which they can wait for joiners, unless begin()
  /// was called.
  void pause();
  /// Discards the offers of the old view.
  void begin_next_view();
  /// Asks the workers of a new view, if begin() was called earlier.
  void ask();
  void take(const MemberRecord& member, int64_t offer);

 private:
  void query();

  CoordinatedJob& job_;
  bool begun_ = false, asked_ = false;
  std::map<uint16_t, int64_t> offers_;
};

}  // namespace poseidon::comm
