#pragma once

#include <algorithm>
#include <cstdint>

namespace poseidon::comm {

/// How far a worker may go: to the end of the job, or to the step that all agree on when the job is
/// told to halt, or when others are to join. Steps are counts of steps done.
class StepLimit {
 public:
  enum class Next {
    kBegin,  ///< the step is begun
    kWait,   ///< it is not decided yet whether it is to be done
    kPause,  ///< it is made in another view, which others join
    kEnd,    ///< there is none
  };

  /// `done` when the job begins, `last` at its end.
  StepLimit(int64_t done, int64_t last) : begun_(done), limit_(last), last_(last) {}

  /// Asks for the step after `done` ones.
  Next next(int64_t done) {
    if (ended_ || done >= last_) return Next::kEnd;
    if (done >= limit_) return done == pause_ ? Next::kPause : Next::kWait;
    begun_ = done + 1;
    return Next::kBegin;
  }
  /// Promises to begin one more step at most until halt() or pause() is called. The number of steps
  /// done then.
  int64_t offer() { return limit_ = std::min(begun_ + 1, last_); }
  void halt(int64_t last) {
    halted_ = last < last_;
    limit_ = last_ = last;
  }
  /// The view ends behind `step` steps, unless the job does.
  void pause(int64_t step) { limit_ = pause_ = std::min(step, last_); }
  /// No further step: the job has failed, or the view is over.
  void end() { ended_ = true; }

  bool ended() const { return ended_; }
  bool halted() const { return halted_; }  ///< whether the end is one that halt() has set
  int64_t begun() const { return begun_; }
  int64_t last() const { return last_; }

 private:
  int64_t begun_, limit_, last_;
  int64_t pause_ = -1;  ///< the step that the view ends behind; -1: not decided
  bool ended_ = false, halted_ = false;
};

}  // namespace poseidon::comm
