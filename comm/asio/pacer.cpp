#include "comm/asio/pacer.h"

#include <algorithm>

namespace poseidon::comm {

namespace {
/// What may be saved up while nobody sends, and made up for when a timer is late.
constexpr double kSavedSeconds = 0.02;
}  // namespace

Pacer::Pacer(asio::io_context& io, double megabits_per_second)
    : bytes_per_second_(megabits_per_second * 1e6 / 8), filled_at_(Clock::now()), timer_(io) {}

bool Pacer::request(const std::shared_ptr<PacedSender>& sender) {
  if (bytes_per_second_ == 0) return true;
  refill();
  const auto wish = sender->wish();
  if (waiting_.empty() && balance_ >= 0 && wish) {
    balance_ -= static_cast<double>(wish->bytes);
    return true;
  }
  if (std::find(waiting_.begin(), waiting_.end(), sender) != waiting_.end()) return false;
  waiting_.push_back(sender);
  if (waiting_.size() == 1) wait();
  return false;
}

void Pacer::set_rate(double megabits_per_second) {
  bytes_per_second_ = megabits_per_second * 1e6 / 8;
  balance_ = 0;
  filled_at_ = Clock::now();
}

void Pacer::stop() {
  waiting_.clear();
  timer_.cancel();
}

void Pacer::refill() {
  const auto now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - filled_at_).count();
  filled_at_ = now;
  balance_ = std::min(balance_ + seconds * bytes_per_second_, kSavedSeconds * bytes_per_second_);
}

void Pacer::wait() {
  const std::chrono::duration<double> missing(std::max(0.0, -balance_) / bytes_per_second_);
  timer_.expires_after(std::chrono::duration_cast<Clock::duration>(missing) +
                       std::chrono::microseconds(1));
  timer_.async_wait([this](const std::error_code& error) {
    if (!error) serve();
  });
}

void Pacer::serve() {
  refill();
  while (!waiting_.empty() && balance_ >= 0) {
    const std::shared_ptr<PacedSender> first = take_first();
    const auto wish = first->wish();
    if (!wish) continue;
    balance_ -= static_cast<double>(wish->bytes);
    first->granted();
  }
  if (!waiting_.empty()) wait();
}

std::shared_ptr<PacedSender> Pacer::take_first() {
  const auto rank = [](const auto& sender) {
    const auto wish = sender->wish();
    return wish ? wish->priority : kUrgent;  // without a wish: out of the way
  };
  const auto first =
      std::min_element(waiting_.begin(), waiting_.end(),
                       [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  std::shared_ptr<PacedSender> sender = *first;
  waiting_.erase(first);
  return sender;
}

}  // namespace poseidon::comm
