#pragma once

#include <asio.hpp>
#include <memory>
#include <string>

#include "comm/asio/channel.h"
#include "comm/wire/send_queue.h"

namespace poseidon::comm {

class LocalQueue;

/// One end of a connection between two transports of this process. Frames go from thread to thread,
/// the most urgent first, and a few in each turn of the receiver's, so that its sockets are read in
/// between; a bulk body is copied once, from the sender's memory to the receiver's destination.
/// There is no socket, no checksum and no limit of bandwidth. Its calls are for the I/O thread of
/// its owner, and so are those that it makes.
class LocalChannel final : public Channel, public std::enable_shared_from_this<LocalChannel> {
 public:
  /// One end as the other one knows it. For any thread.
  struct Far {
    std::shared_ptr<asio::io_context> io;  ///< of that end's I/O thread
    std::weak_ptr<LocalChannel> end;
  };

  /// `io` is that of the owner's thread, `peer_address` where the other end is reached.
  LocalChannel(ChannelOwner& owner, ConnectionId id, std::shared_ptr<asio::io_context> io,
               const std::string& peer_address);
  /// Tells the other end, if this one is the first to go.
  ~LocalChannel() override;

  /// This end as the other is to know it.
  Far far();
  /// Opens the connection: tells the other end, then the machine.
  void answer(const Far& caller, const PeerIdentity& caller_identity, const PeerIdentity& self);
  /// Tells a caller that it is not let in.
  static void refuse(const Far& caller, const std::string& why);

  void send(const FrameHeader& header, Payload payload, Priority priority) override;
  void drop_bulk() override;
  void close() override;

 private:
  void answered(const Far& callee, const PeerIdentity& identity);
  void take_some(const std::shared_ptr<LocalQueue>& queue);
  void arrived(const OutFrame& frame, LocalQueue& queue);
  void parted(LocalQueue& queue);
  void broken(const std::string& why);
  bool open() const { return other_.io != nullptr; }
  void part();

  std::shared_ptr<asio::io_context> io_;
  Far other_;  ///< empty before it has answered, and after the end
  std::shared_ptr<LocalQueue> sent_;
};

}  // namespace poseidon::comm
