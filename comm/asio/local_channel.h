#pragma once

#include <asio.hpp>
#include <memory>
#include <string>

#include "comm/asio/channel.h"
#include "comm/wire/send_queue.h"

namespace poseidon::comm {

class LocalQueue;

/// One end of a connection between two transports of this process. Frames pass from thread to
/// thread by priority. The receiver processes a few frames per iteration of its I/O thread, and
/// reads its sockets in between. A bulk body is copied once, from the sender's memory to the
/// receiver's destination. There is no socket, no checksum and no bandwidth limit. Only the owner's
/// I/O thread may call the functions, and they call owner and machine in this thread.
class LocalChannel final : public Channel, public std::enable_shared_from_this<LocalChannel> {
 public:
  /// A reference to one end, for use by the other end. Any thread may use it.
  struct EndHandle {
    std::shared_ptr<asio::io_context> io;  ///< of that end's I/O thread
    std::weak_ptr<LocalChannel> end;
  };

  /// `io` runs in the owner's I/O thread. `peer_address` is the address of the other end.
  LocalChannel(ChannelOwner& owner, ConnectionId id, std::shared_ptr<asio::io_context> io,
               const std::string& peer_address);
  /// Informs the other end, unless the connection has already ended.
  ~LocalChannel() override;

  /// Returns a reference to this end, for use by the other end.
  EndHandle end_handle();
  /// Opens the connection: informs the other end, then the machine.
  void answer(const EndHandle& caller, const PeerIdentity& caller_identity,
              const PeerIdentity& self);
  /// Informs a caller that it is refused.
  static void refuse(const EndHandle& caller, const std::string& why);

  void send(const FrameHeader& header, Payload payload, Priority priority) override;
  void drop_bulk() override;
  void close() override;

 private:
  void answered(const EndHandle& callee, const PeerIdentity& identity);
  void process_some(const std::shared_ptr<LocalQueue>& queue);
  void arrived(const OutFrame& frame, LocalQueue& queue);
  void peer_disconnected(LocalQueue& queue);
  void broken(const std::string& why);
  bool open() const { return other_.io != nullptr; }
  void disconnect();

  std::shared_ptr<asio::io_context> io_;
  EndHandle other_;  ///< empty before the other end has answered, and after this end has ended
  std::shared_ptr<LocalQueue> sent_;
};

}  // namespace poseidon::comm
