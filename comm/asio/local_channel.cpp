#include "comm/asio/local_channel.h"

#include <cstring>
#include <optional>
#include <utility>

#include "comm/wire/frame_reader.h"
#include "core/error.h"
#include "core/mutex.h"

namespace poseidon::comm {

/// The frames that one end has sent and the other end has not received yet. Also guards the reads
/// of the bodies, which stay in the sender's memory.
class LocalQueue {
 public:
  /// Adds a frame. Returns true if the caller must wake the receiver, because the receiver has
  /// found the queue empty or has not started.
  bool push(OutFrame frame, Priority priority) {
    MutexLock lock(mutex_);
    frames_.push(std::move(frame), priority);
    return !std::exchange(awake_, true);
  }
  /// Returns the frame of highest priority. If there is none, the next push wakes the receiver
  /// again.
  std::optional<OutFrame> pop() {
    MutexLock lock(mutex_);
    awake_ = !frames_.empty();
    return awake_ ? std::optional(frames_.pop()) : std::nullopt;
  }
  void drop_bulk() {
    MutexLock lock(mutex_);
    frames_.keep_urgent();
  }

  /// Copies a body, unless the sender has revoked access to its memory. Returns whether it was
  /// copied.
  bool copy(std::span<const std::byte> from, std::span<std::byte> to) {
    MutexLock lock(lending_);
    if (lent_) std::memcpy(to.data(), from.data(), from.size());
    return lent_;
  }
  /// Revokes access to the sender's memory: only urgent frames remain.
  void take_back() {
    drop_bulk();
    MutexLock lock(lending_);
    lent_ = false;
  }

 private:
  Mutex mutex_, lending_;
  SendQueue frames_ GUARDED_BY(mutex_);
  bool awake_ GUARDED_BY(mutex_) = false;
  bool lent_ GUARDED_BY(lending_) = true;
};

namespace {

/// Frames that the I/O thread processes in one iteration. More frames would delay its sockets,
/// because copying and adding one slice takes some tenths of a millisecond.
constexpr int kFramesInATurn = 4;
constexpr const char* kClosed = "connection closed by the peer";

/// Runs `action` on an end, in that end's I/O thread. Does nothing if the end has been destroyed by
/// then.
template <class Action>
void post(const LocalChannel::EndHandle& to, Action action) {
  asio::post(*to.io, [end = to.end, action = std::move(action)] {
    if (const auto channel = end.lock()) action(*channel);
  });
}

}  // namespace

LocalChannel::LocalChannel(ChannelOwner& owner, ConnectionId id,
                           std::shared_ptr<asio::io_context> io, const std::string& peer_address)
    : Channel(owner, id, true), io_(std::move(io)), sent_(std::make_shared<LocalQueue>()) {
  peer_address_ = peer_address;
}

LocalChannel::~LocalChannel() { disconnect(); }

LocalChannel::EndHandle LocalChannel::end_handle() { return {.io = io_, .end = weak_from_this()}; }

void LocalChannel::answer(const EndHandle& caller, const PeerIdentity& caller_identity,
                          const PeerIdentity& self) {
  other_ = caller;
  asio::post(*caller.io, [end = caller.end, here = end_handle(), self] {
    if (const auto channel = end.lock())
      channel->answered(here, self);
    else
      post(here, [](LocalChannel& left) { left.broken(kClosed); });
  });
  owner_.machine().opened(id_, caller_identity);
}

void LocalChannel::refuse(const EndHandle& caller, const std::string& why) {
  post(caller, [why](LocalChannel& channel) { channel.broken(why); });
}

void LocalChannel::answered(const EndHandle& callee, const PeerIdentity& identity) {
  other_ = callee;
  PeerIdentity peer = identity;
  peer.address = peer_address_;
  owner_.machine().opened(id_, peer);
}

void LocalChannel::send(const FrameHeader& header, Payload payload, Priority priority) {
  if (!open()) return;
  check(header.length == 0 || header.length == payload.bytes.size(),
        "a transport needs a frame's bytes, not only their number");
  check(!is_bulk(header.kind) || !payload.bytes.empty(), "a bulk frame has a body");
  if (!is_bulk(header.kind) && payload.owner == nullptr) payload = copy_of(payload.bytes);
  OutFrame frame{.header = header, .payload = std::move(payload)};
  frame.header.length = frame.payload.bytes.size();
  if (sent_->push(std::move(frame), priority))
    post(other_, [queue = sent_](LocalChannel& end) { end.process_some(queue); });
}

void LocalChannel::drop_bulk() { sent_->drop_bulk(); }

/// Processes a few frames. The rest follow after the I/O thread has checked its sockets.
void LocalChannel::process_some(const std::shared_ptr<LocalQueue>& queue) {
  for (int i = 0; i < kFramesInATurn; ++i) {
    const std::optional<OutFrame> frame = queue->pop();
    if (!frame) return;
    arrived(*frame, *queue);
  }
  post(end_handle(), [queue](LocalChannel& end) { end.process_some(queue); });
}

void LocalChannel::arrived(const OutFrame& frame, LocalQueue& queue) {
  if (!open()) return;
  Machine& machine = owner_.machine();
  const auto& [header, payload] = frame;
  if (!is_bulk(header.kind)) return machine.received(id_, header, payload.bytes);
  const std::span<std::byte> destination = machine.destination(id_, header);
  if (destination.size() != header.length || !open()) return;
  if (queue.copy(payload.bytes, destination)) machine.received(id_, header, destination);
}

/// Ends the connection, which the other end has closed. First processes the frames that the other
/// end sent before.
void LocalChannel::peer_disconnected(LocalQueue& queue) {
  while (const std::optional<OutFrame> frame = queue.pop()) arrived(*frame, queue);
  if (open()) broken(kClosed);
}

void LocalChannel::close() {
  disconnect();
  owner_.ended(*this);
}

void LocalChannel::broken(const std::string& why) {
  other_ = {};
  sent_->take_back();
  owner_.ended(*this);
  owner_.connection_failed(*this, why);
}

void LocalChannel::disconnect() {
  sent_->take_back();
  if (open()) post(other_, [queue = sent_](LocalChannel& left) { left.peer_disconnected(*queue); });
  other_ = {};
}

}  // namespace poseidon::comm
