#include "comm/asio/egress_link.h"

#include <algorithm>
#include <utility>

namespace poseidon::comm {

namespace {
Time now() { return std::chrono::steady_clock::now().time_since_epoch(); }
}  // namespace

EgressLink::Sender EgressLink::add(bool leaves_host, std::shared_ptr<asio::io_context> io,
                                   std::weak_ptr<EgressSender> connection) {
  MutexLock lock(mutex_);
  const Sender sender = egress_scheduler_.add(leaves_host);
  connections_[sender] = {.io = std::move(io), .sender = std::move(connection)};
  return sender;
}

void EgressLink::remove(Sender sender) {
  MutexLock lock(mutex_);
  egress_scheduler_.remove(sender);
  connections_.erase(sender);
  grant(now());
}

bool EgressLink::request(Sender sender, Priority priority, uint64_t bytes, bool waits) {
  MutexLock lock(mutex_);
  if (take_grant(sender)) return true;
  egress_scheduler_.want(sender, priority, bytes);
  grant(now(), sender);
  if (take_grant(sender)) return true;
  if (!waits) egress_scheduler_.withdraw(sender);
  return false;
}

void EgressLink::withdraw(Sender sender) {
  MutexLock lock(mutex_);
  egress_scheduler_.withdraw(sender);
  if (take_grant(sender)) egress_scheduler_.drained(sender, now());
  grant(now());
}

void EgressLink::drained(Sender sender) {
  MutexLock lock(mutex_);
  egress_scheduler_.drained(sender, now());
  grant(now());
}

std::optional<Time> EgressLink::serve() {
  MutexLock lock(mutex_);
  grant(now());
  return egress_scheduler_.changes_at(now());
}

void EgressLink::limit_rate(const void* transport, double megabits_per_second) {
  MutexLock lock(mutex_);
  limits_.erase(transport);
  if (megabits_per_second > 0) limits_[transport] = megabits_per_second * 1e6 / 8;
  const auto least = std::ranges::min_element(limits_, {}, [](auto& each) { return each.second; });
  egress_scheduler_.limit_rate(least == limits_.end() ? 0 : least->second, now());
}

/// Grants all frames that may leave now. Wakes the connections that received a grant, except
/// `asking`.
void EgressLink::grant(Time now, std::optional<Sender> asking) {
  while (const std::optional<Sender> next = egress_scheduler_.next(now)) {
    Connection& connection = connections_.at(*next);
    connection.granted = true;
    if (next == asking) continue;
    asio::post(*connection.io, [sender = connection.sender] {
      if (const auto waiting = sender.lock()) waiting->may_send();
    });
  }
}

bool EgressLink::take_grant(Sender sender) {
  return std::exchange(connections_.at(sender).granted, false);
}

}  // namespace poseidon::comm
