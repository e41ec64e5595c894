#pragma once

#include <algorithm>
#include <cstdint>

namespace poseidon::comm {

/// Limits the steps of a worker to the end of the job. If the job must halt, or joiners wait, all
/// workers agree on an earlier step. All arguments are numbers of steps done.
class StepLimit {
 public:
  enum class Next {
    kBegin,  ///< start the step
    kWait,   ///< it is not decided yet whether the step will be computed
    kPause,  ///< the step is computed in the next view, with joiners
    kEnd,    ///< no step follows
  };

  /// `done`: steps done when the job begins; `last`: steps at its end.
  StepLimit(int64_t done, int64_t last) : begun_(done), limit_(last), last_(last) {}

  /// Requests the step after `done` steps, and counts it as begun if the result is kBegin.
  Next next(int64_t done) {
    if (ended_ || done >= last_) return Next::kEnd;
    if (done >= limit_) return done == pause_ ? Next::kPause : Next::kWait;
    begun_ = done + 1;
    return Next::kBegin;
  }
  /// Promises to start at most one more step until halt() or pause() is called. Returns the number
  /// of steps done after that step.
  int64_t offer() { return limit_ = std::min(begun_ + 1, last_); }
  /// Sets the end of the job: after `last` steps.
  void halt(int64_t last) {
    halted_ = last < last_;
    limit_ = last_ = last;
  }
  /// Sets the end of the view: after `step` steps, unless the job ends before.
  void pause(int64_t step) { limit_ = pause_ = std::min(step, last_); }
  /// Permits no further step, because the job has failed or the view is over.
  void end() { ended_ = true; }

  bool ended() const { return ended_; }
  /// Whether halt() has set an end that is earlier than the original end.
  bool halted() const { return halted_; }
  int64_t begun() const { return begun_; }
  int64_t last() const { return last_; }

 private:
  int64_t begun_, limit_, last_;
  int64_t pause_ = -1;  ///< the step after which the view ends; -1: not decided
  bool ended_ = false, halted_ = false;
};

}  // namespace poseidon::comm
