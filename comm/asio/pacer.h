#pragma once

#include <asio.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "comm/wire/transport.h"

namespace poseidon::comm {

/// A connection whose bulk frames wait for their turn.
class PacedSender {
 public:
  struct Wish {
    Priority priority;
    size_t bytes;
  };
  virtual ~PacedSender() = default;
  /// The frame that it would send next; nothing when it no longer has one.
  virtual std::optional<Wish> wish() const = 0;
  /// It may send that frame.
  virtual void granted() = 0;
};

/// Divides a rate of sending among connections: of those that wait, the one with the most urgent
/// frame goes first. It is a token bucket that may be overdrawn by one frame. Used in the I/O
/// thread only.
class Pacer {
 public:
  /// The rate is in megabits (10^6) per second; 0 stands for no limit.
  Pacer(asio::io_context& io, double megabits_per_second);

  /// Whether the sender may send one frame now; if not, granted() follows when it may.
  bool request(const std::shared_ptr<PacedSender>& sender);
  /// Sets another rate from now on.
  void set_rate(double megabits_per_second);
  /// Makes no more grants.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;

  void refill();
  void wait();
  void serve();
  std::shared_ptr<PacedSender> take_first();

  double bytes_per_second_;
  double balance_ = 0;  ///< bytes
  Clock::time_point filled_at_;
  asio::steady_timer timer_;
  std::vector<std::shared_ptr<PacedSender>> waiting_;
};

}  // namespace poseidon::comm
