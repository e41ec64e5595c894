#include "comm/asio/egress_port.h"

namespace poseidon::comm {

EgressPort::EgressPort(std::shared_ptr<asio::io_context> io, std::shared_ptr<EgressLink> link)
    : io_(std::move(io)), link_(std::move(link)), timer_(*io_) {}

EgressPort::~EgressPort() { limit_rate(0); }

void EgressPort::watch() {
  const std::optional<Time> next = link_->serve();
  if (stopped_ || !next || (next_look_ && *next_look_ <= *next)) return;
  next_look_ = next;
  timer_.expires_at(std::chrono::steady_clock::time_point(
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(*next)));
  timer_.async_wait([this](const std::error_code& error) {
    if (error) return;  // stopped, or set again
    next_look_.reset();
    watch();
  });
}

void EgressPort::stop() {
  stopped_ = true;
  timer_.cancel();
}

EgressTurn::EgressTurn(EgressPort& port, bool leaves_host,
                       const std::shared_ptr<EgressSender>& connection)
    : port_(port),
      leaves_host_(leaves_host),
      sender_(port.link().add(leaves_host, port.io(), connection)) {}

EgressTurn::~EgressTurn() { port_.link().remove(sender_); }

bool EgressTurn::take(Priority priority, uint64_t bytes) {
  const bool waits = unsent_ == 0;
  if (port_.link().request(sender_, priority, bytes, waits)) {
    if (leaves_host_) unsent_ += bytes;
    return true;
  }
  if (waits) port_.watch();
  return false;
}

void EgressTurn::drained() {
  unsent_ = 0;
  port_.link().drained(sender_);
}

}  // namespace poseidon::comm
