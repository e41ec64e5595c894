#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "comm/wire/outlet.h"

namespace poseidon::comm {

/// State transfer to workers that join a job. When all joiners of a view can receive the values,
/// the coordinator requests the values from worker 0. Worker 0 sends them once, in the form of a
/// checkpoint. The coordinator forwards each slice as it arrives, so reception and sending overlap.
/// All calls are made in the coordinator's thread.
class StateTransfer {
 public:
  using Send = std::function<void(uint16_t to, const FrameHeader&, const Payload&)>;

  /// Begins a view in which `lacking` workers receive the values by state transfer. All workers
  /// that have the values have lower ranks.
  void begin_view(uint32_t view, size_t lacking);
  /// Whether workers of this view have not received the values yet.
  bool is_due() const { return lacking_ > 0; }
  /// Records that `worker` can receive the values. Returns true if all receivers are ready. The
  /// caller then requests the values from worker 0.
  bool add(uint16_t worker);
  /// The workers that can receive the values.
  const std::vector<uint16_t>& receivers() const { return receivers_; }
  /// Whether worker 0 has been asked, and has not sent all values.
  bool is_under_way() const { return is_due() && receivers_.size() == lacking_; }
  /// Forwards a slice of a tensor that has arrived from `worker` to all receivers(), if it belongs
  /// to the values. An empty `slice` was dropped on arrival and is ignored.
  void pass_on(uint16_t worker, const FrameHeader& header, const Payload& slice,
               const Send& send) const;
  /// Ends the transfer: worker 0 has sent all values, or no worker waits for them any more.
  void end() { *this = {}; }

 private:
  uint32_t view_ = 0;
  size_t lacking_ = 0;
  std::vector<uint16_t> receivers_;
};

}  // namespace poseidon::comm
