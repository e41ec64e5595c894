#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "comm/wire/identity.h"
#include "comm/wire/wire.h"

/// The interface between the protocol, which does no I/O, and its driver: sockets (comm/asio) or a
/// simulated network (comm/simulation). The driver reports events to a Machine, and the Machine
/// calls its Transport to act. Both run in one thread. While a call from a Machine is in progress,
/// its Transport never calls that Machine.
namespace poseidon::comm {

/// Time since an epoch that the driver chooses.
using Time = std::chrono::nanoseconds;

/// Identifies one connection of this process; values are never reused.
using ConnectionId = uint32_t;

/// Memory to be sent. It must not change until the driver releases `owner`, which any thread may
/// do. Without an owner, it must not change until a message proves that the peer has received it,
/// or the connection is closed.
struct Payload {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;  ///< shared: a sum goes to many peers, at different times
};

/// Frames with a smaller value leave first on a shared link; frames of one priority keep their
/// order.
using Priority = uint64_t;
inline constexpr Priority kUrgent = 0;  ///< control frames
/// The priority of a bulk frame of a step. The smaller the key, the sooner the forward pass needs
/// the layer. If steps overlap (staleness), the earlier step goes first.
inline constexpr Priority bulk_priority(uint32_t key, uint64_t step = 0) {
  return 1 + (step << 32) + key;
}
/// The priority of bulk frames that no step waits for, lower than that of all gradients:
/// checkpoints.
inline constexpr Priority kBackground = UINT64_MAX;

class Transport {
 public:
  virtual ~Transport() = default;

  virtual Time now() const = 0;
  /// Processor time that the machine and the transport have used; 0: unknown.
  virtual Time processor_time() const { return Time{0}; }
  /// Sets the identity with which connections are accepted from now on.
  virtual void present_as(const PeerIdentity& self) = 0;
  /// Starts to connect to "host:port" as `self`. Machine::opened follows if the node at this
  /// address is `called`, in the same job and view; else Machine::closed follows. The job and view
  /// of a called coordinator may differ.
  virtual ConnectionId connect(const std::string& address, const PeerIdentity& self,
                               NodeId called) = 0;
  /// Sends one frame. The transport sets header.length and header.body_seal from the payload. A
  /// payload without bytes but with header.length > 0 stands for that many bytes (simulated
  /// planning runs). Frames to a closed connection are dropped.
  virtual void send(ConnectionId to, const FrameHeader& header, Payload payload,
                    Priority priority) = 0;
  /// Drops the bulk frames that are queued on a connection.
  virtual void drop_bulk(ConnectionId) {}
  /// Closes a connection after its queued urgent frames are sent, or after a time limit of the
  /// transport. Machine::closed() is not called for it.
  virtual void close(ConnectionId connection) = 0;
  /// Requests one call of Machine::wake at `when`. Only the earliest pending request counts.
  virtual void wake_at(Time when) = 0;
};

class Machine {
 public:
  virtual ~Machine() = default;

  /// The transport runs. This is the first call, before any peer is admitted.
  virtual void begin() {}
  /// Returns why a caller that passed mismatch() is not admitted, or "". Called before the caller
  /// has proved its identity.
  virtual std::string refusal(const PeerIdentity& caller) const {
    static_cast<void>(caller);
    return "";
  }
  /// Returns the most bytes that the body of a control frame from this connection may have.
  virtual uint64_t max_control_bytes(ConnectionId from) const {
    static_cast<void>(from);
    return kMaxControlBytes;
  }
  /// A connection, from connect() or accepted, is authenticated.
  virtual void opened(ConnectionId connection, const PeerIdentity& peer) = 0;
  /// Returns the destination of a bulk frame's body, of header.length bytes. If it is empty, the
  /// body is read and dropped, and received() is not called. The memory must stay valid until
  /// received(), closed() or Transport::close().
  virtual std::span<std::byte> destination(ConnectionId from, const FrameHeader& header) = 0;
  /// A complete frame has arrived. A bulk body lies in the memory that destination() returned; any
  /// other body is valid only during the call.
  virtual void received(ConnectionId from, const FrameHeader& header,
                        std::span<const std::byte> body) = 0;
  /// The peer is alive: bytes have arrived. During a long body this may be called only once per
  /// slice. Called at most every few milliseconds.
  virtual void heard(ConnectionId from) = 0;
  /// A connection broke, or could not be made: "connection refused", "connection reset by peer",
  /// "the checksum of a frame's header is wrong".
  virtual void closed(ConnectionId connection, const std::string& why) = 0;
  virtual void wake() = 0;
};

}  // namespace poseidon::comm
