#pragma once

#include <cstdint>

#include "comm/wire/transport.h"

namespace poseidon::comm {

/// How fast a host's link has been of late, from what it has sent. There is no clock here.
class LinkPace {
 public:
  /// `bytes` that were handed over at `since` have left.
  void sent(uint64_t bytes, Time since, Time now);
  /// After which time those who have been handed over no more than `bytes` together are late.
  Time grace_period(uint64_t bytes) const;

 private:
  Time sent_at_{0};
  double bytes_ = 0, ns_ = 0;  ///< what counts less with every further frame
};

}  // namespace poseidon::comm
