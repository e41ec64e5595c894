#pragma once

#include <string>

#include "comm/wire/messages.h"
#include "comm/wire/texts.h"
#include "comm/wire/transport.h"

namespace poseidon::comm {

/// A member's connection to its coordinator, and the messages that the member sends on it. Nothing
/// is sent without an open connection.
class CoordinatorLink {
 public:
  /// `transport` must outlive this object. `address`: the coordinator's "host:port".
  CoordinatorLink(Transport& transport, std::string address)
      : transport_(transport), address_(std::move(address)) {}

  /// Whether `connection` is the connection to the coordinator, open or not.
  bool is(ConnectionId connection) const { return connection == connection_; }
  bool is_open() const { return open_; }

  void connect(const PeerIdentity& self);
  void opened() { open_ = true; }
  void disconnected() { open_ = false; }
  void close();
  /// Sets the view of all later frames.
  void set_view(uint32_t view) { view_ = view; }

  // Messages.
  void note(const Note& note) { send_message(note); }
  /// Sends a note that is already encoded.
  void encoded_note(Payload note) { send_control(std::move(note), kUrgent); }
  /// Sends a note after all bulk frames sent so far.
  void note_after_bulk(const Note& note) { send_message_after_bulk(note); }
  void digest(const Digest& digest) { send_message(digest); }
  /// Reports the activity of the compute thread.
  void progress(const Progress& progress) { send_message(progress); }
  /// Reports that the worker waits after `step` steps and has made all updates of these steps.
  void paused(int64_t step) { send_message(Paused{step}); }
  /// Reports that the member has left the view, because the job reconfigures. `step` is the last
  /// complete step, `least` the earliest step to which a worker can revert.
  void left_view(int64_t step, int64_t least) { send_message(LeftView{step, least}); }
  /// Reports that the member has stopped, because the job has failed. `step` is the last complete
  /// step.
  void stopped(int64_t step) { send_message(Stopped{step}); }
  /// Reports that all tensors of the requested checkpoint have been sent.
  void saved(int64_t step) { send_message_after_bulk(Saved{step}); }
  void cannot_save(const std::string& why) { send_message_after_bulk(CannotSave{why}); }
  /// Proves to the coordinator that large messages pass.
  void send_proof();
  /// Sends a bulk frame with the lowest priority.
  void send(const FrameHeader& header, Payload payload);
  /// Drops bulk frames that have not been sent.
  void drop_bulk();

  template <class Message>
  void send_message(const Message& message) {
    send_control(payload_of(encode_message(message)), kUrgent);
  }
  template <class Message>
  void send_message_after_bulk(const Message& message) {
    send_control(payload_of(encode_message(message)), kBackground);
  }

 private:
  void send_control(Payload encoded, Priority priority);

  Transport& transport_;
  const std::string address_;
  ConnectionId connection_ = 0;
  bool open_ = false;
  uint32_t view_ = 0;
};

}  // namespace poseidon::comm
