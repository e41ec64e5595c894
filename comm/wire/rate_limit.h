#pragma once

#include <cstdint>

#include "comm/wire/transport.h"

namespace poseidon::comm {

/// A limit on the send rate: a token bucket that one frame may overdraw. The caller passes the
/// time.
class RateLimit {
 public:
  /// Sets the rate, in bytes per second, from now on; 0: no limit. If the rate changes, sent bytes
  /// no longer count.
  void set(double bytes_per_second, Time now);
  /// The earliest time at which a frame may be sent; `now`: at once.
  Time free_at(Time now) const { return bytes_per_second_ == 0 ? now : limited_free_at(now); }
  /// Reports that `bytes` bytes are sent at `now`.
  void spend(uint64_t bytes, Time now);

 private:
  Time limited_free_at(Time now) const;
  double balance_at(Time now) const;

  double bytes_per_second_ = 0;
  double balance_ = 0;  ///< bytes, at `filled_at_`
  Time filled_at_{0};
};

}  // namespace poseidon::comm
