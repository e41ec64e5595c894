#include "comm/asio/local_channel.h"

#include <cstring>

#include "comm/wire/frame_reader.h"
#include "comm/wire/send_queue.h"
#include "core/error.h"
#include "core/mutex.h"

namespace poseidon::comm {

/// The memory that one end has sent and the other may still be reading.
class SentMemory {
 public:
  /// Copies, unless the sender has taken its memory back.
  bool copy(std::span<const std::byte> from, std::span<std::byte> to) {
    MutexLock lock(mutex_);
    if (lent_) std::memcpy(to.data(), from.data(), from.size());
    return lent_;
  }
  void take_back() {
    MutexLock lock(mutex_);
    lent_ = false;
  }

 private:
  Mutex mutex_;
  bool lent_ GUARDED_BY(mutex_) = true;
};

namespace {

constexpr const char* kClosed = "closed by the peer";

/// Runs `action` on an end, in its thread; not at all when it is gone by then.
template <class Action>
void post(const LocalChannel::Far& to, Action action) {
  asio::post(*to.io, [end = to.end, action = std::move(action)] {
    if (const auto channel = end.lock()) action(*channel);
  });
}

}  // namespace

LocalChannel::LocalChannel(ChannelOwner& owner, ConnectionId id,
                           std::shared_ptr<asio::io_context> io, const std::string& peer_address)
    : Channel(owner, id, true), io_(std::move(io)), memory_(std::make_shared<SentMemory>()) {
  peer_address_ = peer_address;
}

LocalChannel::~LocalChannel() { part(); }

LocalChannel::Far LocalChannel::far() { return {.io = io_, .end = weak_from_this()}; }

void LocalChannel::answer(const Far& caller, const PeerIdentity& caller_identity,
                          const PeerIdentity& self) {
  other_ = caller;
  asio::post(*caller.io, [end = caller.end, here = far(), self] {
    if (const auto channel = end.lock())
      channel->answered(here, self);
    else
      post(here, [](LocalChannel& left) { left.broken(kClosed); });
  });
  owner_.machine().opened(id_, caller_identity);
}

void LocalChannel::refuse(const Far& caller, const std::string& why) {
  post(caller, [why](LocalChannel& channel) { channel.broken(why); });
}

void LocalChannel::answered(const Far& callee, const PeerIdentity& identity) {
  other_ = callee;
  PeerIdentity peer = identity;
  peer.address = peer_address_;
  owner_.machine().opened(id_, peer);
}

void LocalChannel::send(const FrameHeader& header, Payload payload, Priority) {
  if (!open()) return;
  check(header.length == 0 || header.length == payload.bytes.size(),
        "a transport sends bytes, not the number of bytes");
  check(!is_bulk(header.kind) || !payload.bytes.empty(), "a bulk frame has a body");
  if (!is_bulk(header.kind) && payload.owner == nullptr) payload = copy_of(payload.bytes);
  FrameHeader sent = header;
  sent.length = payload.bytes.size();
  post(other_, [sent, payload = std::move(payload), memory = memory_](LocalChannel& end) {
    end.arrived(sent, payload, *memory);
  });
}

void LocalChannel::arrived(const FrameHeader& header, const Payload& payload, SentMemory& memory) {
  if (!open()) return;
  Machine& machine = owner_.machine();
  if (!is_bulk(header.kind)) return machine.received(id_, header, payload.bytes);
  const std::span<std::byte> place = machine.place(id_, header);
  if (place.size() != header.length || !open()) return;
  if (memory.copy(payload.bytes, place)) machine.received(id_, header, place);
}

void LocalChannel::close() {
  part();
  owner_.ended(*this);
}

void LocalChannel::broken(const std::string& why) {
  other_ = {};
  memory_->take_back();
  owner_.ended(*this);
  owner_.lost(*this, why);
}

void LocalChannel::part() {
  memory_->take_back();
  if (open()) post(other_, [](LocalChannel& left) { left.broken(kClosed); });
  other_ = {};
}

}  // namespace poseidon::comm
