#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "comm/wire/outlet.h"

namespace poseidon::trainer {

/// Passes on the values that the first worker sends for those who have joined, each slice as it
/// comes: they cross both of their links at the same time. Used by the I/O thread.
class ValueRelay {
 public:
  using Send = std::function<void(uint16_t to, const comm::FrameHeader&, const comm::Payload&)>;

  /// What worker 0 sends in this view from now on is for these.
  void begin(uint32_t view, std::vector<uint16_t> to);
  /// Worker 0 has sent all of it.
  void end() { to_.clear(); }
  /// A slice of a tensor has come from a worker; an empty one was dropped.
  void take(uint16_t worker, const comm::FrameHeader& header, const comm::Payload& slice,
            const Send& send) const;

 private:
  uint32_t view_ = 0;
  std::vector<uint16_t> to_;
};

}  // namespace poseidon::trainer
