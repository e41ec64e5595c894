#pragma once

#include <algorithm>
#include <chrono>

namespace poseidon {

/// Decides when a lasting condition is reported again. The time between two reports doubles each
/// time, up to a longest interval.
class ReportBackoff {
 public:
  using Time = std::chrono::nanoseconds;

  ReportBackoff(Time first, Time longest) : interval_(first), longest_(longest) {}

  /// Call this at the first report.
  void begin(Time now) { next_ = now + interval_; }
  /// Returns true if it is time for another report, and then schedules the next report. Its
  /// interval is twice the previous one, but at most `longest`.
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
