#pragma once

#include <asio.hpp>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

#include "comm/wire/link_arbiter.h"
#include "core/mutex.h"

namespace poseidon::comm {

/// A connection whose bulk frames wait for the link.
class EgressSender {
 public:
  virtual ~EgressSender() = default;
  /// Its request may succeed now. Called in its I/O thread.
  virtual void may_send() = 0;
};

/// The link by which frames leave a host, shared by the transports of one process. For any thread.
class EgressLink {
 public:
  using Sender = LinkArbiter::Sender;

  /// A new connection, whose I/O thread is that of `io`.
  Sender add(bool leaves_host, std::shared_ptr<asio::io_context> io,
             std::weak_ptr<EgressSender> connection);
  void remove(Sender sender);
  /// Whether the connection may hand over a bulk frame now. If not and it waits, may_send() follows
  /// when it may, and the frame's turn is kept for it.
  bool request(Sender sender, Priority priority, uint64_t bytes, bool waits);
  /// The connection waits no more.
  void withdraw(Sender sender);
  /// What the connection has handed over is sent, or nearly so.
  void drained(Sender sender);
  /// Has all go whose turn has come. Returns when to call again; nothing when none waits.
  std::optional<Time> serve();
  /// The limit of one transport's host, 10^6 bits/s; 0: none. Of several the least counts.
  void limit_rate(const void* transport, double megabits_per_second);

 private:
  struct Connection {
    std::shared_ptr<asio::io_context> io;
    std::weak_ptr<EgressSender> sender;
    bool granted = false;  ///< a turn that it has not used yet
  };

  void grant(Time now, std::optional<Sender> asking = {}) REQUIRES(mutex_);
  bool take_grant(Sender sender) REQUIRES(mutex_);

  Mutex mutex_;
  LinkArbiter arbiter_ GUARDED_BY(mutex_);
  std::unordered_map<Sender, Connection> connections_ GUARDED_BY(mutex_);
  std::map<const void*, double> limits_ GUARDED_BY(mutex_);  ///< bytes per second, by transport
};

}  // namespace poseidon::comm
