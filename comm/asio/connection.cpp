#include "comm/asio/connection.h"

#include <algorithm>

#include "comm/wire/address.h"
#include "comm/wire/reachability.h"
#include "comm/wire/texts.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {

using asio::ip::tcp;

constexpr std::chrono::milliseconds kHeardEvery{5};

/// An IPv4 peer of a socket that listens at [::] has its IPv4 address, as on other sockets.
std::string address_of(const tcp::endpoint& endpoint) {
  asio::ip::address address = endpoint.address();
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    address = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  return to_string({.host = address.to_string(), .port = endpoint.port()});
}

/// Makes text from an unauthenticated peer safe to show.
std::string printable(std::span<const std::byte> body) {
  std::string out;
  for (std::byte byte : body) {
    const auto letter = static_cast<char>(byte);
    out += letter >= ' ' && letter <= '~' ? letter : '?';
  }
  return out;
}

/// `unfinished`: the item that the end of the stream interrupts, if any.
std::string why_ended(const std::error_code& error, const std::string& unfinished) {
  const std::string why =
      error == asio::error::eof ? "connection closed by the peer" : text_of(error);
  return unfinished.empty() ? why : why + ", in the middle of " + unfinished;
}

}  // namespace

Connection::Connection(ChannelOwner& owner, ConnectionId id, std::unique_ptr<Stream> stream,
                       std::variant<Initiator, Acceptor> handshake)
    : Channel(owner, id, std::holds_alternative<Initiator>(handshake)),
      stream_(std::move(stream)),
      handshake_(std::move(handshake)),
      dialler_(stream_->socket()),
      deadline_(stream_->socket().get_executor()),
      writer_(*this, *stream_) {}

// ---- From nothing to an open connection ----

void Connection::dial(const std::string& address) {
  peer_address_ = address;
  const auto limit = owner_.options().limits.connect;
  set_deadline(limit, kNoAnswer + seconds_text(limit));
  asio::post(deadline_.get_executor(), [self = shared_from_this(), address] {
    if (self->phase_ != Phase::kConnecting) return;
    self->dialler_.dial(address, [self](const std::string& error) {
      if (self->phase_ != Phase::kConnecting) return;
      if (!error.empty()) return self->fail(error);
      self->open_stream(true);
    });
  });
}

void Connection::accept() { open_stream(false); }

void Connection::open_stream(bool initiator) {
  tcp::socket& socket = stream_->socket();
  std::error_code gone;  // ignored: the first read reports the error
  const tcp::endpoint peer = socket.remote_endpoint(gone);
  if (!gone) peer_address_ = address_of(peer);
  socket.set_option(tcp::no_delay(true), gone);
  const bool leaves_host = socket.local_endpoint(gone).address() != peer.address();
  congestion_.begin(socket.native_handle(), leaves_host);
  writer_.begin(owner_.egress(), leaves_host);
  const auto limit = owner_.options().limits.handshake;
  set_deadline(limit, "no handshake within " + seconds_text(limit));
  stream_->open(initiator, [self = shared_from_this()](const std::error_code& error, size_t) {
    if (self->phase_ != Phase::kConnecting) return;
    if (error) return self->fail(why_ended(error, ""));
    self->begin_handshake();
  });
}

void Connection::begin_handshake() {
  phase_ = Phase::kHandshaking;
  if (handshake_.initiates()) writer_.send_handshake(FrameKind::kHello, handshake_.hello());
  read();
}

bool Connection::take_handshake(FrameKind kind, std::span<const std::byte> body) {
  if (kind == FrameKind::kRefusal) {
    fail(handshake_.initiates() ? kRefusedByPeer + printable(body) : printable(body));
    return false;
  }
  HandshakeStep step = handshake_.take(
      body, [this](const PeerIdentity& caller) { return owner_.machine().refusal(caller); });
  if (!step.error.empty()) {
    refuse(step.error);
    return false;
  }
  if (const std::optional<FrameKind> reply = HandshakeEnd::reply_to(kind))
    writer_.send_handshake(*reply, std::move(step.reply));
  if (step.peer) opened(*step.peer, step.keys);
  return listens();
}

void Connection::opened(PeerIdentity peer, const std::optional<SessionKeys>& keys) {
  if (keys && !owner_.options().tls.given()) {
    writer_.seal_by(std::make_unique<KeyedSeal>(keys->sent));
    reader_.expect(std::make_unique<KeyedSeal>(keys->received));
  }
  deadline_.cancel();
  phase_ = Phase::kOpen;
  known_ = true;
  congestion_.update(owner_.options().congestion_control, std::chrono::steady_clock::now());
  peer.address = peer_address_;
  owner_.machine().opened(id_, peer);
}

// ---- Reading ----

void Connection::read() {
  // While reads wait for many bytes, Linux does not enlarge the receive window. A long round trip
  // needs a large window.
  stream_->expect(congestion_.is_long() ? 1 : reader_.missing());
  stream_->read(reader_.room(),
                [self = shared_from_this()](const std::error_code& error, size_t count) {
                  self->was_read(error, count);
                });
}

void Connection::was_read(const std::error_code& error, size_t count) {
  if (!listens()) return forget_input();
  if (error) return fail(why_ended(error, reader_.unfinished()));
  report_heard();
  if (!listens()) return forget_input();
  const std::string fault = reader_.filled(count, *this);
  if (!fault.empty() && phase_ == Phase::kOpen) {
    owner_.options().log->warning(text("closed the connection to ", peer_address_, ": ", fault));
    fail(fault);
  }
  if (!fault.empty() && phase_ == Phase::kHandshaking) refuse(fault);
  if (!listens()) return forget_input();
  read();
}

void Connection::report_heard() {
  const auto now = std::chrono::steady_clock::now();
  if (phase_ != Phase::kOpen || now - heard_at_ < kHeardEvery) return;
  heard_at_ = now;
  congestion_.update(owner_.options().congestion_control, now);
  owner_.machine().heard(id_);
}

void Connection::forget_input() {
  if (phase_ != Phase::kClosing) return;
  // Read to the end. Otherwise the system answers the peer with a reset, which may overtake the
  // last frames sent.
  stream_->read({discard_buffer_, {}},
                [self = shared_from_this()](const std::error_code& error, size_t) {
                  const bool over = error && error != asio::error::operation_aborted;
                  if (over && self->phase_ == Phase::kClosing) return self->finish();
                  self->forget_input();
                });
}

std::string Connection::announced(const FrameHeader& header) {
  if (header.kind == FrameKind::kRefusal) return "";
  if (phase_ == Phase::kHandshaking && header.kind != handshake_.expected())
    return text("expected a ", name_of(handshake_.expected()), " frame, got a ",
                name_of(header.kind), " frame");
  if (phase_ == Phase::kOpen && is_handshake(header.kind))
    return text("unexpected ", name_of(header.kind), " frame after the handshake");
  if (phase_ == Phase::kOpen && header.kind == FrameKind::kControl)
    if (const uint64_t most = owner_.machine().max_control_bytes(id_); header.length > most)
      return text("a control frame announces ", header.length, " bytes, expected at most ", most,
                  " from a node that is not a member yet");
  return "";
}

std::span<std::byte> Connection::destination(const FrameHeader& header) {
  if (phase_ != Phase::kOpen) return {};
  return owner_.machine().destination(id_, header);
}

bool Connection::take(const FrameHeader& header, std::span<const std::byte> body) {
  if (phase_ == Phase::kHandshaking || header.kind == FrameKind::kRefusal)
    return take_handshake(header.kind, body);
  if (phase_ == Phase::kOpen) owner_.machine().received(id_, header, body);
  return phase_ == Phase::kOpen;
}

// ---- Writing ----

void Connection::send(const FrameHeader& header, Payload payload, Priority priority) {
  if (phase_ != Phase::kOpen) return;
  writer_.send(header, std::move(payload), priority);
}

void Connection::write_failed(const std::error_code& error) {
  if (phase_ == Phase::kClosing) return finish();
  fail(text_of(error));
}

// ---- Ending ----

void Connection::set_deadline(std::chrono::milliseconds after, const std::string& what) {
  deadline_.expires_after(after);
  deadline_.async_wait([self = shared_from_this(), what](const std::error_code& error) {
    // The timer may have been set again after it expired.
    if (error || self->deadline_.expiry() > asio::steady_timer::clock_type::now()) return;
    if (self->phase_ == Phase::kOpen || self->phase_ == Phase::kClosed) return;
    if (self->phase_ == Phase::kClosing)
      self->finish();
    else
      self->fail(what);
  });
}

void Connection::fail(const std::string& why) {
  if (phase_ == Phase::kClosed) return;
  const bool tell = phase_ != Phase::kClosing;
  const std::string remark = phase_ < Phase::kOpen ? dialler_.remark() : "";
  const auto self = shared_from_this();
  finish();
  if (tell) owner_.connection_failed(*this, remark + why);
}

void Connection::refuse(const std::string& why) {
  const auto bytes = std::as_bytes(std::span(why)).first(std::min<size_t>(why.size(), 1024));
  writer_.send_handshake(FrameKind::kRefusal, {bytes.begin(), bytes.end()});
  begin_closing();
  owner_.connection_failed(*this, dialler_.remark() + why);
}

void Connection::close() {
  if (phase_ == Phase::kOpen) return begin_closing();
  // An unauthenticated peer gets no time to read its refusal, so such connections cannot
  // accumulate.
  const bool stays = phase_ == Phase::kClosed || (phase_ == Phase::kClosing && known_);
  if (!stays) finish();
}

void Connection::begin_closing() {
  phase_ = Phase::kClosing;
  writer_.close();
  stream_->release();
  stream_->expect(0);  // unread bytes at the end would reset the connection
  set_deadline(owner_.options().limits.linger, "");
}

void Connection::finish() {
  phase_ = Phase::kClosed;
  std::error_code ignored;
  dialler_.cancel();
  deadline_.cancel();
  stream_->release();
  stream_->socket().close(ignored);
  writer_.stop();
  owner_.ended(*this);
}

}  // namespace poseidon::comm
