#pragma once

#include <asio.hpp>
#include <memory>
#include <optional>

#include "comm/asio/egress_link.h"

namespace poseidon::comm {

/// A transport's access to the link of its host. It must outlive the EgressTurn objects of its
/// connections. Used in the I/O thread only, except the constructor, the destructor and
/// limit_rate().
class EgressPort {
 public:
  EgressPort(std::shared_ptr<asio::io_context> io, std::shared_ptr<EgressLink> link);
  ~EgressPort();
  EgressPort(const EgressPort&) = delete;
  EgressPort& operator=(const EgressPort&) = delete;

  EgressLink& link() { return *link_; }
  const std::shared_ptr<asio::io_context>& io() const { return io_; }
  /// Sets the limit of this transport, 10^6 bits/s; 0: no limit. Any thread may call it.
  void limit_rate(double megabits_per_second) { link_->limit_rate(this, megabits_per_second); }
  /// Called when a connection of this transport waits. Grants all frames that may leave now, and
  /// starts a timer for the time at which further frames may leave.
  void watch();
  /// Stops the timer.
  void stop();

 private:
  const std::shared_ptr<asio::io_context> io_;
  const std::shared_ptr<EgressLink> link_;
  asio::steady_timer timer_;
  std::optional<Time> next_look_;
  bool stopped_ = false;
};

/// The access of one connection to the link.
class EgressTurn {
 public:
  EgressTurn(EgressPort& port, bool leaves_host, const std::shared_ptr<EgressSender>& connection);
  ~EgressTurn();
  EgressTurn(const EgressTurn&) = delete;
  EgressTurn& operator=(const EgressTurn&) = delete;

  /// Returns whether the connection may queue its next bulk frame now. If not, and none of its
  /// frames is queued, may_send() follows. If its frames are still queued, the connection must call
  /// take() again after drained().
  bool take(Priority priority, uint64_t bytes);
  /// Bytes that are queued for another host; 0 for a connection within the host.
  uint64_t unsent() const { return unsent_; }
  /// Reports that the queued bytes are sent or nearly sent.
  void drained();
  /// Reports that the connection has no waiting bulk frame any more.
  void withdraw() { port_.link().withdraw(sender_); }

 private:
  EgressPort& port_;
  const bool leaves_host_;
  const EgressLink::Sender sender_;
  uint64_t unsent_ = 0;
};

}  // namespace poseidon::comm
