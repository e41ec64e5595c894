#include "comm/wire/rate_limit.h"

#include <algorithm>
#include <cmath>

namespace poseidon::comm {

namespace {
/// The size of the bucket, as seconds of sending at the limit. An idle link saves at most this
/// much, which compensates for late timers.
constexpr double kSavedSeconds = 0.02;
}  // namespace

void RateLimit::set(double bytes_per_second, Time now) {
  if (bytes_per_second == bytes_per_second_) return;
  bytes_per_second_ = bytes_per_second;
  balance_ = 0;
  filled_at_ = now;
}

Time RateLimit::limited_free_at(Time now) const {
  const double balance = balance_at(now);
  if (balance >= 0) return now;
  return now + Time(static_cast<int64_t>(std::ceil(-balance / bytes_per_second_ * 1e9)));
}

void RateLimit::spend(uint64_t bytes, Time now) {
  if (bytes_per_second_ == 0) return;
  balance_ = balance_at(now) - static_cast<double>(bytes);
  filled_at_ = now;
}

double RateLimit::balance_at(Time now) const {
  const double seconds = std::chrono::duration<double>(now - filled_at_).count();
  return std::min(balance_ + seconds * bytes_per_second_, kSavedSeconds * bytes_per_second_);
}

}  // namespace poseidon::comm
