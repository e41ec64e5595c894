#pragma once

#include <cstdint>

#include "comm/wire/transport.h"

namespace poseidon::comm {

/// Estimates the recent rate of a host's link from the bytes that the host has sent. The caller
/// passes the time.
class LinkRateEstimator {
 public:
  /// Reports that `bytes` bytes, queued at `since`, are sent at `now`.
  void sent(uint64_t bytes, Time since, Time now);
  /// The time that `bytes` bytes, queued at the same time, may take before their receivers count as
  /// slow.
  Time grace_period(uint64_t bytes) const;

 private:
  Time sent_at_{0};
  double bytes_ = 0, ns_ = 0;  ///< sent bytes and the time for them, with exponential decay
};

}  // namespace poseidon::comm
