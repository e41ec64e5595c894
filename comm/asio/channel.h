#pragma once

#include <string>

#include "comm/wire/transport.h"

namespace poseidon::comm {

struct AsioOptions;
class Channel;
class Pacer;

/// What channels share, and whom they tell what becomes of them.
class ChannelOwner {
 public:
  virtual ~ChannelOwner() = default;
  virtual const AsioOptions& options() const = 0;
  virtual Machine& machine() = 0;
  virtual Pacer& pacer() = 0;
  /// The peer has broken, or was refused. The machine has not been told.
  virtual void lost(Channel& channel, const std::string& why) = 0;
  /// The last call: nothing more comes or goes.
  virtual void ended(Channel& channel) = 0;
};

/// A way to one peer: over a socket (connection.h), or to another transport of this process
/// (local_channel.h). In the I/O thread.
class Channel {
 public:
  Channel(ChannelOwner& owner, ConnectionId id, bool known)
      : owner_(owner), id_(id), known_(known) {}
  virtual ~Channel() = default;

  ConnectionId id() const { return id_; }
  /// Whether the machine knows of it, by connect() or opened().
  bool known() const { return known_; }
  /// "127.0.0.1:40123", or where it was to go.
  const std::string& peer_address() const { return peer_address_; }

  /// As Transport::send(), Transport::drop_bulk() and Transport::close().
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
