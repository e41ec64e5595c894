#pragma once

#include <string>

#include "comm/wire/node.h"
#include "comm/wire/outlet.h"

namespace poseidon::comm {

/// Receives the tensors that reach a member in frames, from its peers and from the coordinator.
/// Member calls it in its thread. Frames of peers arrive only after MemberHost::planned(). A faulty
/// coordinator may send frames earlier, and awaiting() may be called earlier.
class PayloadReceiver {
 public:
  virtual ~PayloadReceiver() = default;

  virtual Destination destination(NodeId from, const FrameHeader& header) = 0;
  /// Called when the body of an accepted frame has arrived. Returns the reason to reject the body,
  /// or "". The sender of a rejected body counts as failed.
  virtual std::string received(NodeId from, const FrameHeader& header) = 0;
  /// received() will not be called for the body for which destination() last returned memory. The
  /// reason: the connection or the view ends, or this member has reported a failure.
  virtual void forgotten(NodeId /*from*/) {}
  /// Names the item that this member now awaits from `node`, for messages: "the sum of \"conv1\" of
  /// step 12 from server 0". Returns "" if it awaits nothing from that node.
  virtual std::string awaiting(NodeId node) const = 0;
};

}  // namespace poseidon::comm
