#pragma once

#include <string>

#include "comm/wire/transport.h"

namespace poseidon::comm {

struct AsioOptions;
class Channel;
class EgressPort;

/// The state that the channels of a transport share, and the receiver of their reports.
class ChannelOwner {
 public:
  virtual ~ChannelOwner() = default;
  virtual const AsioOptions& options() const = 0;
  virtual Machine& machine() = 0;
  virtual EgressPort& egress() = 0;
  /// The connection has broken, or the peer was refused. The channel has not informed the machine.
  virtual void connection_failed(Channel& channel, const std::string& why) = 0;
  /// The channel sends and receives nothing more. connection_failed() may still follow.
  virtual void ended(Channel& channel) = 0;
};

/// A connection to one peer: over a socket (connection.h), or to another transport of this process
/// (local_channel.h). Used in the I/O thread only.
class Channel {
 public:
  Channel(ChannelOwner& owner, ConnectionId id, bool known)
      : owner_(owner), id_(id), known_(known) {}
  virtual ~Channel() = default;

  ConnectionId id() const { return id_; }
  /// Whether the machine knows this channel's id, from connect() or opened().
  bool known() const { return known_; }
  /// The peer's address, "127.0.0.1:40123". Before a socket is connected: the address to which it
  /// connects.
  const std::string& peer_address() const { return peer_address_; }

  /// These functions implement Transport::send(), Transport::drop_bulk() and Transport::close().
  virtual void send(const FrameHeader& header, Payload payload, Priority priority) = 0;
  virtual void drop_bulk() {}
  virtual void close() = 0;

 protected:
  ChannelOwner& owner_;
  const ConnectionId id_;
  bool known_;
  std::string peer_address_;
};

}  // namespace poseidon::comm
