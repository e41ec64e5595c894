#include "comm/wire/link_rate_estimator.h"

#include <algorithm>
#include <cmath>

namespace poseidon::comm {

namespace {

/// Time constant of the decay: bytes sent this long ago have the weight 1/e. The time does not
/// advance while the link is idle.
constexpr Time kMemory = std::chrono::milliseconds(250);
constexpr double kTimesAsLong = 2;  ///< grace period / predicted time: threads wake late
/// Grace period before the first measurement, and its bounds after that.
constexpr Time kUnknown = std::chrono::milliseconds(250);
constexpr Time kMin = std::chrono::milliseconds(5);
constexpr Time kMax = std::chrono::seconds(2);

}  // namespace

void LinkRateEstimator::sent(uint64_t bytes, Time since, Time now) {
  const Time took = std::min(now - std::max(since, sent_at_), kMax);
  sent_at_ = now;
  const auto ns = static_cast<double>(took.count());
  const double kept = std::exp(-ns / static_cast<double>(kMemory.count()));
  bytes_ = kept * bytes_ + static_cast<double>(bytes);
  ns_ = kept * ns_ + ns;
}

Time LinkRateEstimator::grace_period(uint64_t bytes) const {
  if (bytes_ == 0) return kUnknown;
  const double needed = ns_ / bytes_ * static_cast<double>(bytes);
  return std::clamp(Time(static_cast<int64_t>(std::min(kTimesAsLong * needed, 1e10))), kMin, kMax);
}

}  // namespace poseidon::comm
