#pragma once

#include <cstdint>

#include "comm/wire/transport.h"

namespace poseidon::comm {

/// A rate of sending: a token bucket that one frame may overdraw. There is no clock here.
class RateLimit {
 public:
  /// Bytes per second from now on; 0 stands for no limit.
  void set(double bytes_per_second, Time now);
  /// When a frame may be sent: not later than `now` if at once.
  Time free_at(Time now) const { return bytes_per_second_ == 0 ? now : limited_free_at(now); }
  /// `bytes` are sent.
  void spend(uint64_t bytes, Time now);

 private:
  Time limited_free_at(Time now) const;
  double balance_at(Time now) const;

  double bytes_per_second_ = 0;
  double balance_ = 0;  ///< bytes, at `filled_at_`
  Time filled_at_{0};
};

}  // namespace poseidon::comm
