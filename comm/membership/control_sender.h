#pragma once

#include "comm/wire/messages.h"
#include "comm/wire/texts.h"
#include "comm/wire/transport.h"

namespace poseidon::comm {

/// Sends the coordinator's messages, in frames with the number of the current view.
class ControlSender {
 public:
  /// `transport` must outlive this object.
  explicit ControlSender(Transport& transport) : transport_(transport) {}
  ControlSender(const ControlSender&) = delete;
  ControlSender& operator=(const ControlSender&) = delete;

  /// The view that all frames carry.
  uint32_t view() const { return view_; }
  void begin_next_view() { ++view_; }

  template <class Message>
  void send_message(ConnectionId connection, const Message& message) const {
    send(connection, payload_of(encode_message(message)));
  }
  void send(ConnectionId connection, const Payload& encoded) const {
    transport_.send(connection, {.kind = FrameKind::kControl, .view = view_}, encoded, kUrgent);
  }

 private:
  Transport& transport_;
  uint32_t view_ = 1;
};

}  // namespace poseidon::comm
