#include "comm/asio/connection.h"

#include <algorithm>
#include <cctype>

#include "comm/wire/address.h"
#include "comm/wire/words.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {

using asio::ip::tcp;
using UnsentLimit = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_NOTSENT_LOWAT>;  // NOLINT

constexpr std::chrono::milliseconds kHeardEvery{5};

std::string address_of(const tcp::endpoint& endpoint) {
  return to_string({.host = endpoint.address().to_string(), .port = endpoint.port()});
}

/// Within a host nothing is congested, but an algorithm that paces, as BBR does, sets a timer for
/// each segment all the same: a third of the processor time of a transfer.
void do_not_pace(tcp::socket& socket) {
  constexpr std::string_view kPlain = "reno";  // in every kernel; without it things are only slower
  ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_CONGESTION, kPlain.data(), kPlain.size());
}

/// "connection reset by peer": the system's words, as part of a sentence.
std::string words(const std::error_code& error) {
  std::string out = error.message();
  if (!out.empty()) out[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(out[0])));
  return out;
}

/// Text from a stranger, fit to be shown.
std::string printable(std::span<const std::byte> body) {
  std::string out;
  for (std::byte byte : body) {
    const auto letter = static_cast<char>(byte);
    out += letter >= ' ' && letter <= '~' ? letter : '?';
  }
  return out;
}

}  // namespace

Connection::Connection(ChannelOwner& owner, ConnectionId id, std::unique_ptr<Stream> stream,
                       std::variant<Initiator, Acceptor> handshake)
    : Channel(owner, id, std::holds_alternative<Initiator>(handshake)),
      stream_(std::move(stream)),
      handshake_(std::move(handshake)),
      resolver_(stream_->socket().get_executor()),
      deadline_(stream_->socket().get_executor()) {}

// ---- From nothing to an open connection ----

void Connection::dial(const std::string& address) {
  peer_address_ = address;
  const auto limit = owner_.options().limits.connect;
  set_deadline(limit, "no answer within " + seconds_text(limit));
  asio::post(deadline_.get_executor(), [self = shared_from_this(), address] {
    if (self->phase_ == Phase::kConnecting) self->resolve(address);
  });
}

void Connection::resolve(const std::string& address) {
  HostPort to;
  try {
    to = parse_address(address);
  } catch (const ConfigError& error) {
    return fail(error.what());
  }
  std::error_code no_number;
  const auto number = asio::ip::make_address(to.host, no_number);
  if (!no_number) return connect(Endpoints::create(tcp::endpoint(number, to.port), to.host, ""));
  resolver_.async_resolve(
      to.host, std::to_string(to.port),
      [self = shared_from_this()](const std::error_code& error, const Endpoints& endpoints) {
        if (self->phase_ != Phase::kConnecting) return;
        if (error) return self->fail("its name cannot be resolved: " + words(error));
        self->connect(endpoints);
      });
}

void Connection::connect(const Endpoints& endpoints) {
  asio::async_connect(
      stream_->socket(), endpoints,
      [self = shared_from_this()](const std::error_code& error, const tcp::endpoint&) {
        if (self->phase_ != Phase::kConnecting) return;
        if (error) return self->fail(words(error));
        self->open_stream(true);
      });
}

void Connection::accept() { open_stream(false); }

void Connection::open_stream(bool initiator) {
  tcp::socket& socket = stream_->socket();
  std::error_code gone;  // shows again at the first read
  const tcp::endpoint peer = socket.remote_endpoint(gone);
  if (!gone) peer_address_ = address_of(peer);
  socket.set_option(tcp::no_delay(true), gone);
  const bool leaves_host = socket.local_endpoint(gone).address() != peer.address();
  if (!leaves_host) do_not_pace(socket);
  turn_.emplace(owner_.egress(), leaves_host, shared_from_this());
  // Shallow, or what is urgent would wait behind megabytes that are not.
  enough_ = leaves_host ? LinkArbiter::kCredit : SendBatch::kEnoughBytes;
  limit_unsent(leaves_host ? LinkArbiter::kCredit : kSliceBytes);
  const auto limit = owner_.options().limits.handshake;
  set_deadline(limit, "no handshake within " + seconds_text(limit));
  stream_->open(initiator, [self = shared_from_this()](const std::error_code& error, size_t) {
    if (self->phase_ != Phase::kConnecting) return;
    if (error) return self->fail(words(error));
    self->begin_handshake();
  });
}

void Connection::begin_handshake() {
  phase_ = Phase::kHandshaking;
  if (const auto* initiator = std::get_if<Initiator>(&handshake_)) {
    const auto hello = initiator->hello();
    queue_handshake(FrameKind::kHello, {hello.begin(), hello.end()});
  }
  read();
}

FrameKind Connection::expected_kind() const {
  if (std::holds_alternative<Initiator>(handshake_)) return FrameKind::kChallenge;
  return hello_taken_ ? FrameKind::kProof : FrameKind::kHello;
}

HandshakeStep Connection::handshake_step(FrameKind kind, std::span<const std::byte> body) {
  if (const auto* initiator = std::get_if<Initiator>(&handshake_))
    return initiator->challenge(body);
  auto& acceptor = std::get<Acceptor>(handshake_);
  if (kind == FrameKind::kProof) return acceptor.proof(body);
  hello_taken_ = true;
  HandshakeStep step = acceptor.hello(body);
  if (step.error.empty()) step.error = owner_.machine().refusal(acceptor.caller());
  return step;
}

bool Connection::take_handshake(FrameKind kind, std::span<const std::byte> body) {
  if (kind == FrameKind::kRefusal) {
    fail("refused by the peer: " + printable(body));
    return false;
  }
  HandshakeStep step = handshake_step(kind, body);
  if (!step.error.empty()) {
    refuse(step.error);
    return false;
  }
  if (kind == FrameKind::kHello) queue_handshake(FrameKind::kChallenge, std::move(step.reply));
  if (kind == FrameKind::kChallenge) queue_handshake(FrameKind::kProof, std::move(step.reply));
  if (step.peer) opened(*step.peer, step.keys);
  return listens();
}

void Connection::opened(PeerIdentity peer, const std::optional<SessionKeys>& keys) {
  if (keys && !owner_.options().tls.given()) {
    seal_ = std::make_unique<KeyedSeal>(keys->sent);
    reader_.expect(std::make_unique<KeyedSeal>(keys->received));
  }
  deadline_.cancel();
  phase_ = Phase::kOpen;
  known_ = true;
  peer.address = peer_address_;
  owner_.machine().opened(id_, peer);
}

// ---- Reading ----

void Connection::read() {
  stream_->expect(reader_.missing());
  stream_->read(reader_.room(),
                [self = shared_from_this()](const std::error_code& error, size_t count) {
                  self->was_read(error, count);
                });
}

void Connection::was_read(const std::error_code& error, size_t count) {
  if (!listens()) return forget_input();
  if (error) return input_ended(error);
  report_life();
  if (!listens()) return forget_input();
  const std::string fault = reader_.filled(count, *this);
  if (!fault.empty() && phase_ == Phase::kOpen) fail(fault);
  if (!fault.empty() && phase_ == Phase::kHandshaking) refuse(fault);
  if (!listens()) return forget_input();
  read();
}

void Connection::input_ended(const std::error_code& error) {
  const std::string place = reader_.unfinished();
  const std::string why = error == asio::error::eof ? "closed by the peer" : words(error);
  fail(place.empty() ? why : why + ", in the middle of " + place);
}

void Connection::report_life() {
  const auto now = std::chrono::steady_clock::now();
  if (phase_ != Phase::kOpen || now - heard_at_ < kHeardEvery) return;
  heard_at_ = now;
  owner_.machine().heard(id_);
}

void Connection::forget_input() {
  if (phase_ != Phase::kClosing) return;
  // Read to its end, or the system answers the peer with a reset, which may overtake our last
  // words.
  stream_->read({nowhere_, {}}, [self = shared_from_this()](const std::error_code& error, size_t) {
    const bool over = error && error != asio::error::operation_aborted;
    if (over && self->phase_ == Phase::kClosing) return self->finish();
    self->forget_input();
  });
}

std::string Connection::announced(const FrameHeader& header) {
  if (header.kind == FrameKind::kRefusal) return "";
  if (phase_ == Phase::kHandshaking && header.kind != expected_kind())
    return text("expected a ", name_of(expected_kind()), " frame, got a ", name_of(header.kind),
                " frame");
  if (phase_ == Phase::kOpen && is_handshake(header.kind))
    return text("a ", name_of(header.kind), " frame after the handshake");
  return "";
}

std::span<std::byte> Connection::place(const FrameHeader& header) {
  if (phase_ != Phase::kOpen) return {};
  return owner_.machine().place(id_, header);
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
  queue_.push({.header = header, .payload = std::move(payload)}, priority);
  pump_soon();
}

void Connection::queue_handshake(FrameKind kind, std::vector<std::byte> body) {
  const auto owned = std::make_shared<const std::vector<std::byte>>(std::move(body));
  FrameHeader header;
  header.kind = kind;
  queue_.push({.header = header, .payload = {.bytes = *owned, .owner = owned}}, kUrgent);
  pump_soon();
}

/// Later in this turn of the I/O thread: what a machine sends at once is then written at once.
void Connection::pump_soon() {
  if (pump_posted_ || writing_) return;
  pump_posted_ = true;
  asio::post(deadline_.get_executor(), [self = shared_from_this()] {
    self->pump_posted_ = false;
    self->pump();
  });
}

/// Frames leave the queue only when the socket takes them: until then others may overtake.
void Connection::pump() {
  if (writing_ || phase_ == Phase::kClosed) return;
  if (queue_.empty() && batch_.done() && !drains()) {
    std::error_code gone;
    if (phase_ == Phase::kClosing) stream_->socket().shutdown(tcp::socket::shutdown_send, gone);
    return;
  }
  writing_ = true;
  if (drains()) limit_unsent(turn_->unsent() / 2);
  stream_->socket().async_wait(tcp::socket::wait_write,
                               [self = shared_from_this()](const std::error_code&) {
                                 if (self->phase_ == Phase::kClosed) return;
                                 self->has_room();
                                 self->fill_batch();
                                 self->write();
                               });
}

/// The socket takes more, so what was handed over is nearly sent.
void Connection::has_room() {
  if (!drains()) return;
  limit_unsent(LinkArbiter::kCredit);
  turn_->drained();
}

/// How much the system holds for this socket and has not sent, before the socket takes more.
void Connection::limit_unsent(uint64_t bytes) {
  std::error_code gone;  // shows again at the next operation
  stream_->socket().set_option(UnsentLimit(static_cast<int>(bytes)), gone);
}

/// Whether the first frame of the queue may leave: one that is not urgent waits for the link.
bool Connection::may_leave_next() {
  return queue_.first_priority() == kUrgent ||
         turn_->take(queue_.first_priority(), queue_.first().bytes());
}

void Connection::fill_batch() {
  while (!queue_.empty() && !batch_.full(enough_) && may_leave_next()) {
    OutFrame frame = queue_.pop();
    FrameSeal& seal = is_handshake(frame.header.kind) ? handshake_seal_ : *seal_;
    batch_.add(std::move(frame), seal);
  }
}

void Connection::write() {
  if (batch_.done()) {
    // Its bulk frames wait for the link, or close() has dropped them.
    writing_ = false;
    if (phase_ == Phase::kClosing) pump();
    return;
  }
  stream_->write(batch_.pieces(),
                 [self = shared_from_this()](const std::error_code& error, size_t count) {
                   self->was_written(error, count);
                 });
}

void Connection::was_written(const std::error_code& error, size_t count) {
  if (phase_ == Phase::kClosed) return;
  batch_.advance(count);
  const bool released = phase_ == Phase::kClosing && error == asio::error::operation_aborted;
  if (error && !released) return phase_ == Phase::kClosing ? finish() : fail(words(error));
  if (!batch_.done()) return write();
  writing_ = false;
  pump();
}

void Connection::drop_bulk() {
  queue_.keep_urgent();
  if (turn_) turn_->withdraw();
}

// ---- Ending ----

void Connection::set_deadline(std::chrono::milliseconds after, const std::string& what) {
  deadline_.expires_after(after);
  deadline_.async_wait([self = shared_from_this(), what](const std::error_code& error) {
    // The timer may have been set again after it went off.
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
  const auto self = shared_from_this();
  finish();
  if (tell) owner_.lost(*this, why);
}

void Connection::refuse(const std::string& why) {
  const auto bytes = std::as_bytes(std::span(why)).first(std::min<size_t>(why.size(), 1024));
  queue_handshake(FrameKind::kRefusal, {bytes.begin(), bytes.end()});
  begin_closing();
  owner_.lost(*this, why);
}

void Connection::close() {
  if (phase_ == Phase::kClosing || phase_ == Phase::kClosed) return;
  if (phase_ != Phase::kOpen) return finish();
  begin_closing();
}

void Connection::begin_closing() {
  phase_ = Phase::kClosing;
  turn_.reset();
  queue_.keep_urgent();
  batch_.keep_bodies();
  stream_->release();
  stream_->expect(0);  // what is unread at the end would reset the connection
  set_deadline(owner_.options().limits.linger, "");
  pump_soon();
}

void Connection::finish() {
  phase_ = Phase::kClosed;
  turn_.reset();
  std::error_code ignored;
  resolver_.cancel();
  deadline_.cancel();
  stream_->release();
  stream_->socket().close(ignored);
  queue_.clear();
  batch_.clear();
  owner_.ended(*this);
}

}  // namespace poseidon::comm
