#pragma once

#include <asio.hpp>
#include <memory>
#include <string>
#include <variant>

#include "comm/asio/channel.h"
#include "comm/asio/driver.h"
#include "comm/asio/egress_port.h"
#include "comm/asio/stream.h"
#include "comm/wire/frame_reader.h"
#include "comm/wire/handshake.h"
#include "comm/wire/send_queue.h"

namespace poseidon::comm {

/// One connection over a socket, from its first byte to its last. It lives as long as the driver
/// knows it or an operation is under way. It calls machine and owner from its own operations only,
/// never from within one of the public calls.
class Connection final : public Channel,
                         public std::enable_shared_from_this<Connection>,
                         public EgressSender,
                         private FrameSink {
 public:
  /// A connection with an Initiator is made by dial(). One with an Acceptor was accepted, and
  /// accept() follows.
  Connection(ChannelOwner& owner, ConnectionId id, std::unique_ptr<Stream> stream,
             std::variant<Initiator, Acceptor> handshake);

  void dial(const std::string& address);
  void accept();
  void send(const FrameHeader& header, Payload payload, Priority priority) override;
  void drop_bulk() override;
  void close() override;

 private:
  enum class Phase {
    kConnecting,   // until the stream is open
    kHandshaking,  // only frames of the handshake
    kOpen,
    kClosing,  // sends what is urgent, reads and forgets
    kClosed,
  };
  using Endpoints = asio::ip::tcp::resolver::results_type;

  void resolve(const std::string& address);
  void connect(const Endpoints& endpoints);
  void open_stream(bool initiator);
  void begin_handshake();

  void read();
  void was_read(const std::error_code& error, size_t count);
  void input_ended(const std::error_code& error);
  /// Whether incoming frames still count.
  bool listens() const { return phase_ == Phase::kHandshaking || phase_ == Phase::kOpen; }
  void forget_input();
  void report_life();

  std::string announced(const FrameHeader& header) override;
  std::span<std::byte> place(const FrameHeader& header) override;
  bool take(const FrameHeader& header, std::span<const std::byte> body) override;
  bool take_handshake(FrameKind kind, std::span<const std::byte> body);
  FrameKind expected_kind() const;
  HandshakeStep handshake_step(FrameKind kind, std::span<const std::byte> body);
  void opened(PeerIdentity peer, const std::optional<SessionKeys>& keys);

  void queue_handshake(FrameKind kind, std::vector<std::byte> body);
  void pump_soon();
  void pump();
  void has_room();
  void fill_batch();
  void write();
  void was_written(const std::error_code& error, size_t count);
  bool may_leave_next();
  bool drains() const { return turn_ && turn_->unsent() > 0; }
  void limit_unsent(uint64_t bytes);
  void may_send() override { pump(); }

  void set_deadline(std::chrono::milliseconds after, const std::string& what);
  void fail(const std::string& why);
  void refuse(const std::string& why);
  void begin_closing();
  void finish();

  std::unique_ptr<Stream> stream_;
  std::variant<Initiator, Acceptor> handshake_;
  Phase phase_ = Phase::kConnecting;
  bool hello_taken_ = false;  ///< whether an acceptor has taken a hello
  asio::ip::tcp::resolver resolver_;
  asio::steady_timer deadline_;

  FrameReader reader_;
  std::array<std::byte, 4096> nowhere_;  ///< takes what comes in while closing
  std::chrono::steady_clock::time_point heard_at_{};

  /// The seals of frames that are sent, in the handshake and after it; reader_ has those of frames
  /// that come in.
  ChecksumSeal handshake_seal_;
  std::unique_ptr<FrameSeal> seal_ = std::make_unique<ChecksumSeal>();
  SendQueue queue_;
  SendBatch batch_;
  uint64_t enough_ = 0;  ///< bytes of a batch
  bool pump_posted_ = false;
  bool writing_ = false;
  std::optional<EgressTurn> turn_;  ///< once it is known whether the peer is on this host
};

}  // namespace poseidon::comm
