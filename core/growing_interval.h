#pragma once

#include <algorithm>
#include <chrono>

namespace poseidon {

/// When something is reported again that lasts: after a first interval, and then each time after
/// twice as long, up to a longest interval.
class GrowingInterval {
 public:
  using Time = std::chrono::nanoseconds;

  GrowingInterval(Time first, Time longest) : interval_(first), longest_(longest) {}

  /// It has been reported for the first time.
  void begin(Time now) { next_ = now + interval_; }
  /// Whether it is to be reported again now. The next report is due after a longer interval.
  bool is_due(Time now) {
    if (now < next_) return false;
    interval_ = std::min(2 * interval_, longest_);
    next_ = now + interval_;
    return true;
  }

 private:
  Time interval_;
  Time longest_;
  Time next_{0};
};

}  // namespace poseidon
