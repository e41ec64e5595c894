#pragma once

#include <cstdint>

#include "comm/wire/transport.h"

namespace poseidon::comm {

/// How fast a host's link has been of late, from what it has sent. There is no clock here.
class LinkPace {
 public:
  /// `bytes` that were handed over at `since` have left.
  void sent(uint64_t bytes, Time since, Time now);
  /// How long `bytes` that were handed over together may take before their receivers are late.
  Time grace_period(uint64_t bytes) const;

 private:
  Time sent_at_{0};
  double bytes_ = 0, ns_ = 0;  ///< what was long ago counts less
};

}  // namespace poseidon::comm
