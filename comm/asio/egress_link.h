#pragma once

#include <asio.hpp>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

#include "comm/wire/egress_scheduler.h"
#include "core/mutex.h"

namespace poseidon::comm {

/// A connection whose bulk frames wait for the link.
class EgressSender {
 public:
  virtual ~EgressSender() = default;
  /// Called in the connection's I/O thread when EgressLink::request() may succeed.
  virtual void may_send() = 0;
};

/// The link on which frames leave a host, shared by the transports of one process. Any thread may
/// call the functions.
class EgressLink {
 public:
  using Sender = EgressScheduler::Sender;

  /// Adds a connection whose I/O thread runs `io`.
  Sender add(bool leaves_host, std::shared_ptr<asio::io_context> io,
             std::weak_ptr<EgressSender> connection);
  void remove(Sender sender);
  /// Returns whether the connection may queue a bulk frame now. If not, and `waits` is true, the
  /// link later reserves a grant for the connection and calls may_send().
  bool request(Sender sender, Priority priority, uint64_t bytes, bool waits);
  /// Reports that the connection does not wait any more. Releases its unused grant, if any.
  void withdraw(Sender sender);
  /// Reports that the queued bytes of the connection are sent or nearly sent.
  void drained(Sender sender);
  /// Grants all frames that may leave now. Returns the time at which to call serve() again;
  /// nullopt: no connection waits.
  std::optional<Time> serve();
  /// Sets the limit of one transport, 10^6 bits/s; 0: no limit. The link uses the smallest limit of
  /// its transports.
  void limit_rate(const void* transport, double megabits_per_second);

 private:
  struct Connection {
    std::shared_ptr<asio::io_context> io;
    std::weak_ptr<EgressSender> sender;
    bool granted = false;  ///< it has a grant that it has not used yet
  };

  void grant(Time now, std::optional<Sender> asking = {}) REQUIRES(mutex_);
  bool take_grant(Sender sender) REQUIRES(mutex_);

  Mutex mutex_;
  EgressScheduler egress_scheduler_ GUARDED_BY(mutex_);
  std::unordered_map<Sender, Connection> connections_ GUARDED_BY(mutex_);
  std::map<const void*, double> limits_ GUARDED_BY(mutex_);  ///< bytes per second, by transport
};

}  // namespace poseidon::comm
