#include "comm/asio/frame_writer.h"

namespace poseidon::comm {

using asio::ip::tcp;
using UnsentLimit = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_NOTSENT_LOWAT>;  // NOLINT

namespace {

/// Limit on the unsent bytes of a socket: one frame in transmission and the next one. With a larger
/// limit, urgent frames would wait for megabytes of bulk frames.
constexpr uint64_t kMaxUnsent = 2 * EgressScheduler::kSliceFrame;

}  // namespace

void FrameWriter::begin(EgressPort& egress, bool leaves_host) {
  turn_.emplace(egress, leaves_host, std::shared_ptr<EgressSender>(owner_.hold(), this));
  if (leaves_host) enough_ = kMaxUnsent;
  limit_unsent(leaves_host ? kMaxUnsent : kSliceBytes);
}

void FrameWriter::send(const FrameHeader& header, Payload payload, Priority priority) {
  queue_.push({.header = header, .payload = std::move(payload)}, priority);
  pump_soon();
}

void FrameWriter::send_handshake(FrameKind kind, std::vector<std::byte> body) {
  const auto owned = std::make_shared<const std::vector<std::byte>>(std::move(body));
  FrameHeader header;
  header.kind = kind;
  send(header, {.bytes = *owned, .owner = owned}, kUrgent);
}

void FrameWriter::drop_bulk() {
  queue_.keep_urgent();
  if (turn_) turn_->withdraw();
}

void FrameWriter::close() {
  closing_ = true;
  turn_.reset();
  queue_.keep_urgent();
  batch_.keep_bodies();
  pump_soon();
}

void FrameWriter::stop() {
  stopped_ = true;
  turn_.reset();
  queue_.clear();
  batch_.clear();
}

/// Writes later in the same iteration of the I/O thread, so that all frames of a machine's call
/// leave in one write.
void FrameWriter::pump_soon() {
  if (pump_posted_ || writing_) return;
  pump_posted_ = true;
  asio::post(stream_.socket().get_executor(), [this, held = owner_.hold()] {
    pump_posted_ = false;
    pump();
  });
}

/// Frames leave the queue only when the socket accepts more bytes. Until then, more urgent frames
/// can overtake the queued frames.
void FrameWriter::pump() {
  if (writing_ || stopped_) return;
  if (queue_.empty() && batch_.done() && !drains()) return end_half();
  writing_ = true;
  if (drains()) limit_unsent(turn_->unsent() / 2);
  stream_.socket().async_wait(tcp::socket::wait_write,
                              [this, held = owner_.hold()](const std::error_code&) {
                                if (stopped_) return;
                                has_room();
                                fill_batch();
                                write();
                              });
}

void FrameWriter::end_half() {
  std::error_code gone;
  if (closing_) stream_.socket().shutdown(tcp::socket::shutdown_send, gone);
}

/// Reports to the link that the queued bytes are nearly sent, because the socket accepts more
/// bytes.
void FrameWriter::has_room() {
  if (!drains()) return;
  limit_unsent(kMaxUnsent);
  turn_->drained();
}

/// Sets the number of unsent bytes below which the system accepts more bytes for this socket.
void FrameWriter::limit_unsent(uint64_t bytes) {
  std::error_code gone;  // ignored: the next operation reports the error
  stream_.socket().set_option(UnsentLimit(static_cast<int>(bytes)), gone);
}

void FrameWriter::fill_batch() {
  while (!queue_.empty() && !batch_.full(enough_) && may_leave_next()) {
    OutFrame frame = queue_.pop();
    FrameSeal& seal = is_handshake(frame.header.kind) ? handshake_seal_ : *seal_;
    batch_.add(std::move(frame), seal);
  }
}

/// Whether the first frame of the queue may leave. A bulk frame needs a grant of the link.
bool FrameWriter::may_leave_next() {
  return queue_.first_priority() == kUrgent ||
         turn_->take(queue_.first_priority(), queue_.first().bytes());
}

void FrameWriter::write() {
  if (batch_.done()) {
    // The bulk frames wait for the link, or close() has dropped them.
    writing_ = false;
    if (closing_) pump();
    return;
  }
  stream_.write(batch_.pieces(),
                [this, held = owner_.hold()](const std::error_code& error, size_t count) {
                  was_written(error, count);
                });
}

void FrameWriter::was_written(const std::error_code& error, size_t count) {
  if (stopped_) return;
  batch_.advance(count);
  const bool released = closing_ && error == asio::error::operation_aborted;
  if (error && !released) return owner_.write_failed(error);
  if (!batch_.done()) return write();
  writing_ = false;
  pump();
}

}  // namespace poseidon::comm
