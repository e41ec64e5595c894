#pragma once

#include <asio.hpp>
#include <memory>
#include <string>
#include <variant>

#include "comm/asio/channel.h"
#include "comm/asio/congestion.h"
#include "comm/asio/dialler.h"
#include "comm/asio/driver.h"
#include "comm/asio/frame_writer.h"
#include "comm/asio/stream.h"
#include "comm/wire/frame_reader.h"
#include "comm/wire/handshake.h"
#include "comm/wire/handshake_end.h"

namespace poseidon::comm {

/// One connection over a socket, from its first byte to its last. The object lives while the driver
/// holds it, or an operation is in progress. It calls the machine only from its asynchronous
/// operations, never from within a public call. close() may call ChannelOwner::ended().
class Connection final : public Channel,
                         public std::enable_shared_from_this<Connection>,
                         private FrameSink,
                         private FrameWriter::Owner {
 public:
  /// `handshake` is an Initiator for dial(), and an Acceptor for accept().
  Connection(ChannelOwner& owner, ConnectionId id, std::unique_ptr<Stream> stream,
             std::variant<Initiator, Acceptor> handshake);

  void dial(const std::string& address);
  void accept();
  void send(const FrameHeader& header, Payload payload, Priority priority) override;
  void drop_bulk() override { writer_.drop_bulk(); }
  void close() override;

 private:
  enum class Phase {
    kConnecting,   // until the stream is open
    kHandshaking,  // only frames of the handshake
    kOpen,
    kClosing,  // sends urgent frames, discards input
    kClosed,
  };

  void open_stream(bool initiator);
  void begin_handshake();

  void read();
  void was_read(const std::error_code& error, size_t count);
  /// Whether incoming frames are still processed.
  bool listens() const { return phase_ == Phase::kHandshaking || phase_ == Phase::kOpen; }
  void forget_input();
  void report_heard();

  std::string announced(const FrameHeader& header) override;
  std::span<std::byte> destination(const FrameHeader& header) override;
  bool take(const FrameHeader& header, std::span<const std::byte> body) override;
  bool take_handshake(FrameKind kind, std::span<const std::byte> body);
  void opened(PeerIdentity peer, const std::optional<SessionKeys>& keys);

  std::shared_ptr<void> hold() override { return shared_from_this(); }
  void write_failed(const std::error_code& error) override;

  void set_deadline(std::chrono::milliseconds after, const std::string& what);
  void fail(const std::string& why);
  void refuse(const std::string& why);
  void begin_closing();
  void finish();

  std::unique_ptr<Stream> stream_;
  HandshakeEnd handshake_;
  Phase phase_ = Phase::kConnecting;
  Dialler dialler_;
  asio::steady_timer deadline_;
  SocketCongestion congestion_;

  FrameReader reader_;
  std::array<std::byte, 4096> discard_buffer_;  ///< discarded input while closing
  std::chrono::steady_clock::time_point heard_at_{};
  FrameWriter writer_;
};

}  // namespace poseidon::comm
