#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "comm/wire/outlet.h"

namespace poseidon::comm {

/// State transfer to workers that join a job. When all joiners of a view can receive the values,
/// the first worker is asked to send them once. It has the values, and sends them in the form of a
/// checkpoint. Each slice is forwarded as it arrives, so it crosses the links of both ends at the
/// same time. It lives in the coordinator's thread.
class StateTransfer {
 public:
  using Send = std::function<void(uint16_t to, const FrameHeader&, const Payload&)>;

  /// A view begins in which `lacking` workers get their values this way. None of them has a lower
  /// rank than a worker that has the values.
  void begin_view(uint32_t view, size_t lacking);
  /// Whether the view has such workers, and they have not received the values yet.
  bool is_due() const { return lacking_ > 0; }
  /// A worker can receive the values. Returns true if it was the last one: now the first worker
  /// must be asked.
  bool add(uint16_t worker);
  /// The workers that can receive the values.
  const std::vector<uint16_t>& receivers() const { return receivers_; }
  /// Whether the first worker has been asked, and has not sent all values.
  bool is_under_way() const { return is_due() && receivers_.size() == lacking_; }
  /// A slice of a tensor has arrived from a worker; an empty one was dropped. If it belongs to the
  /// values, it is sent to all workers that lack them.
  void pass_on(uint16_t worker, const FrameHeader& header, const Payload& slice,
               const Send& send) const;
  /// The first worker has sent all values, or no worker waits for them any more.
  void end() { *this = {}; }

 private:
  uint32_t view_ = 0;
  size_t lacking_ = 0;
  std::vector<uint16_t> receivers_;
};

}  // namespace poseidon::comm
