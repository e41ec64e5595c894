#pragma once

#include <cstdint>

#include "comm/wire/transport.h"

namespace poseidon::comm {

/// Measures the recent rate of a host's link from what it has sent. There is no clock here.
class LinkRateEstimator {
 public:
  /// `bytes` that were queued at `since` are sent at `now`.
  void sent(uint64_t bytes, Time since, Time now);
  /// How long `bytes` that are queued together may take before their receivers count as slow.
  Time grace_period(uint64_t bytes) const;

 private:
  Time sent_at_{0};
  double bytes_ = 0, ns_ = 0;  ///< sums with exponential decay
};

}  // namespace poseidon::comm
