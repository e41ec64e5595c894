#pragma once

#include <asio.hpp>
#include <memory>
#include <optional>

#include "comm/asio/egress_link.h"

namespace poseidon::comm {

/// A transport's way to the link of its host. It outlives the turns of its connections. Used in
/// the I/O thread only, but for the constructor and the destructor.
class EgressPort {
 public:
  EgressPort(std::shared_ptr<asio::io_context> io, std::shared_ptr<EgressLink> link);
  ~EgressPort();
  EgressPort(const EgressPort&) = delete;
  EgressPort& operator=(const EgressPort&) = delete;

  EgressLink& link() { return *link_; }
  const std::shared_ptr<asio::io_context>& io() const { return io_; }
  /// The limit of the host, 10^6 bits/s; 0: none.
  void limit_rate(double megabits_per_second) { link_->limit_rate(this, megabits_per_second); }
  /// A connection of this transport waits: whatever time alone changes is seen.
  void watch();
  /// Watches no more.
  void stop();

 private:
  const std::shared_ptr<asio::io_context> io_;
  const std::shared_ptr<EgressLink> link_;
  asio::steady_timer timer_;
  std::optional<Time> next_look_;
  bool stopped_ = false;
};

/// The turns of one connection on the link.
class EgressTurn {
 public:
  EgressTurn(EgressPort& port, bool leaves_host, const std::shared_ptr<EgressSender>& connection);
  ~EgressTurn();
  EgressTurn(const EgressTurn&) = delete;
  EgressTurn& operator=(const EgressTurn&) = delete;

  /// Whether the most urgent bulk frame may be handed over now. If not, may_send() follows, unless
  /// the connection has handed over others: then it asks again when they have drained.
  bool take(Priority priority, uint64_t bytes);
  /// What was handed over and takes credit, bytes.
  uint64_t unsent() const { return unsent_; }
  /// That is sent, or nearly so.
  void drained();
  /// No bulk frame waits any more.
  void withdraw() { port_.link().withdraw(sender_); }

 private:
  EgressPort& port_;
  const bool leaves_host_;
  const EgressLink::Sender sender_;
  uint64_t unsent_ = 0;
};

}  // namespace poseidon::comm
