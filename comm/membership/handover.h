#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "comm/wire/outlet.h"

namespace poseidon::comm {

/// How workers that join a job get its values. When all of a view that lack them can take them, the
/// first worker, which has them, is asked for them, and sends them once, as it sends a checkpoint.
/// Each slice is passed on as it comes: it crosses the links of both at the same time. Used by the
/// coordinator's thread.
class Handover {
 public:
  using Send = std::function<void(uint16_t to, const FrameHeader&, const Payload&)>;

  /// A view begins, in which so many workers get their values like that. Of these none has a lower
  /// rank than a worker that has them.
  void begin_view(uint32_t view, size_t lacking);
  /// Whether it has such workers, and they have not got them yet.
  bool is_due() const { return lacking_ > 0; }
  /// A worker can take them. Returns whether it was the last: the first worker is to be asked now.
  bool add(uint16_t worker);
  /// Who can take them.
  const std::vector<uint16_t>& receivers() const { return receivers_; }
  /// Whether the first worker has been asked, and has not sent all of them.
  bool is_under_way() const { return is_due() && receivers_.size() == lacking_; }
  /// A slice of a tensor has come from a worker; an empty one was dropped. Where it is one of the
  /// values it is sent to all who lack them.
  void pass_on(uint16_t worker, const FrameHeader& header, const Payload& slice,
               const Send& send) const;
  /// The first worker has sent all of them, or nobody waits for them any more.
  void end() { *this = {}; }

 private:
  uint32_t view_ = 0;
  size_t lacking_ = 0;
  std::vector<uint16_t> receivers_;
};

}  // namespace poseidon::comm
