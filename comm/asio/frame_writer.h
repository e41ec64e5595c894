#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "comm/asio/egress_port.h"
#include "comm/asio/stream.h"
#include "comm/wire/frame_seal.h"
#include "comm/wire/send_queue.h"

namespace poseidon::comm {

/// Sends frames on one stream, in order of priority. Urgent frames leave as soon as the socket
/// accepts them. Bulk frames also wait for the host's egress scheduler. Used in the I/O thread
/// only.
class FrameWriter final : public EgressSender {
 public:
  /// The connection that writes.
  class Owner {
   public:
    virtual ~Owner() = default;
    /// Keeps the owner, the writer and the stream alive while an operation is in progress.
    virtual std::shared_ptr<void> hold() = 0;
    virtual void write_failed(const std::error_code& error) = 0;
  };

  FrameWriter(Owner& owner, Stream& stream) : owner_(owner), stream_(stream) {}

  /// Prepares to write. The socket must be connected. `leaves_host`: the peer is on another host.
  void begin(EgressPort& egress, bool leaves_host);
  /// Sets the seal of all frames after the handshake.
  void seal_by(std::unique_ptr<FrameSeal> seal) { seal_ = std::move(seal); }

  void send(const FrameHeader& header, Payload payload, Priority priority);
  void send_handshake(FrameKind kind, std::vector<std::byte> body);
  void drop_bulk();
  /// Drops the queued bulk frames and copies all bodies that have no owner, so callers may reuse
  /// their memory. Sends the remaining frames, then shuts down the sending half of the stream.
  void close();
  /// Drops all frames, and sends nothing more.
  void stop();

 private:
  void pump_soon();
  void pump();
  void end_half();
  void fill_batch();
  void write();
  void was_written(const std::error_code& error, size_t count);
  bool may_leave_next();
  bool drains() const { return turn_ && turn_->unsent() > 0; }
  void has_room();
  void limit_unsent(uint64_t bytes);
  void may_send() override { pump(); }

  Owner& owner_;
  Stream& stream_;
  /// `handshake_seal_` seals the frames of the handshake, `seal_` all later frames.
  ChecksumSeal handshake_seal_;
  std::unique_ptr<FrameSeal> seal_ = std::make_unique<ChecksumSeal>();
  SendQueue queue_;
  SendBatch batch_;
  std::optional<EgressTurn> turn_;
  uint64_t enough_ = SendBatch::kEnoughBytes;  ///< bytes of a full batch of frames
  bool pump_posted_ = false;
  bool writing_ = false;
  bool closing_ = false, stopped_ = false;
};

}  // namespace poseidon::comm
