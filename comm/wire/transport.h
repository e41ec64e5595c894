#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "comm/wire/identity.h"
#include "comm/wire/wire.h"

/// The seam between the protocol, which is free of I/O, and what drives it: sockets (comm/asio) or
/// a simulated network (comm/simulation). A Machine is told what happened and asks its Transport to
/// act; both live in one thread, and neither calls into the other from within such a request
/// (a Transport never calls its machine before the request has returned).
namespace poseidon::comm {

/// Time since an epoch that the driver chooses.
using Time = std::chrono::nanoseconds;

/// Identifies one connection of this process; no value is used twice.
using ConnectionId = uint32_t;

/// Memory to be sent. It must stay as it is until the driver lets go of `owner`, in any thread;
/// without an owner, until the machine knows by the protocol that it has arrived.
struct Payload {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;  ///< shared: a sum goes to many peers, each in its own time
};

/// Frames of a smaller priority leave sooner where a link is shared; those of one priority keep
/// their order.
using Priority = uint64_t;
inline constexpr Priority kUrgent = 0;  ///< control frames
/// The priority of a bulk frame of a step, by its key, which is the less the sooner the forward
/// pass needs it. Where steps overlap, as late sums have it, the earlier one is waited for first.
inline constexpr Priority bulk_priority(uint32_t key, uint64_t step = 0) {
  return 1 + (step << 32) + key;
}
/// That of bulk frames which no step waits for, behind all gradients: checkpoints.
inline constexpr Priority kBackground = UINT64_MAX;

class Transport {
 public:
  virtual ~Transport() = default;

  virtual Time now() const = 0;
  /// Processor time that the machine and the transport have used; 0 where it is not known.
  virtual Time processor_time() const { return Time{0}; }
  /// Sets the identity by which connections are accepted from now on.
  virtual void present_as(const PeerIdentity& self) = 0;
  /// Begins to connect to "host:port" as `self`. Machine::opened follows when `called`, of the same
  /// job and view (or the coordinator), has answered there; otherwise Machine::closed.
  virtual ConnectionId connect(const std::string& address, const PeerIdentity& self,
                               NodeId called) = 0;
  /// Sends one frame. header.length and header.body_seal are filled in from the payload; a payload
  /// without bytes but with header.length > 0 stands for that many (simulated planning runs).
  /// Frames to a closed connection are dropped.
  virtual void send(ConnectionId to, const FrameHeader& header, Payload payload,
                    Priority priority) = 0;
  /// Drops the bulk frames that wait to be sent over a connection.
  virtual void drop_bulk(ConnectionId) {}
  /// Ends a connection after the urgent frames that wait have been sent, or `linger` has passed; it
  /// is not followed by Machine::closed.
  virtual void close(ConnectionId connection) = 0;
  /// Asks for Machine::wake at `when`, once; the earliest request counts.
  virtual void wake_at(Time when) = 0;
};

class Machine {
 public:
  virtual ~Machine() = default;

  /// The transport runs. The first call, before anybody is let in.
  virtual void begin() {}
  /// Returns why a caller of this job and view is not let in, or "". Called before the caller has
  /// proved who it is.
  virtual std::string refusal(const PeerIdentity& caller) const {
    static_cast<void>(caller);
    return "";
  }
  /// Returns the most bytes that the body of a control frame from this connection may have.
  virtual uint64_t most_control_bytes(ConnectionId from) const {
    static_cast<void>(from);
    return kMostControlBytes;
  }
  /// A connection that was made by connect(), or accepted, is authenticated.
  virtual void opened(ConnectionId connection, const PeerIdentity& peer) = 0;
  /// Returns the destination of a bulk frame's body, of header.length bytes. If it is empty, the
  /// body is read and dropped, and received() is not called. The memory must stay until received()
  /// or closed().
  virtual std::span<std::byte> place(ConnectionId from, const FrameHeader& header) = 0;
  /// A whole frame has come. A bulk body lies where place() said; any other is valid during the
  /// call.
  virtual void received(ConnectionId from, const FrameHeader& header,
                        std::span<const std::byte> body) = 0;
  /// The peer is alive: some bytes have come, of a body a whole slice. Called at most every few
  /// milliseconds.
  virtual void heard(ConnectionId from) = 0;
  /// A connection broke, or could not be made: "refused", "reset by peer", "a frame's checksum
  /// ...".
  virtual void closed(ConnectionId connection, const std::string& why) = 0;
  virtual void wake() = 0;
};

}  // namespace poseidon::comm
