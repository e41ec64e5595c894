#include "comm/membership/step_timer.h"

#include <algorithm>

namespace poseidon::comm {

namespace {
constexpr size_t kStepsRemembered = 32;
}  // namespace

void StepTimer::begin(int64_t step, Time now) {
  furthest_step_ = step;
  reached_at_ = now;
}

void StepTimer::reached(int64_t step, Time now) {
  if (step <= furthest_step_) return;
  latest_.push_back(now - reached_at_);
  if (latest_.size() > kStepsRemembered) latest_.erase(latest_.begin());
  begin(step, now);
}

Time StepTimer::median_step() const {
  if (latest_.empty()) return Time{0};
  std::vector<Time> times = latest_;
  const auto middle = times.begin() + static_cast<int64_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace poseidon::comm
