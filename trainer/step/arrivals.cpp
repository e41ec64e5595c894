#include "trainer/step/arrivals.h"

#include "trainer/step/job_lost.h"

namespace poseidon::trainer {

namespace {

constexpr auto kLongWait = std::chrono::seconds(1);

}  // namespace

void Arrivals::push(uint32_t layer) {
  {
    MutexLock lock(mutex_);
    layers_.push_back(layer);
  }
  changed_.notify_one();
}

std::optional<uint32_t> Arrivals::take() {
  MutexLock lock(mutex_);
  if (lost_) throw JobLost(*lost_);
  if (layers_.empty()) return std::nullopt;
  const uint32_t layer = layers_.front();
  layers_.pop_front();
  return layer;
}

/// A long wait is noticed once, or once a day.
void Arrivals::wait_for_change(Clock::time_point& notice) {
  if (changed_.wait_until(mutex_, notice)) return;
  notice += std::chrono::hours(24);
  on_long_wait_();
}

void Arrivals::wait() {
  Clock::time_point notice = Clock::now() + kLongWait;
  MutexLock lock(mutex_);
  while (!lost_ && layers_.empty()) wait_for_change(notice);
  if (lost_) throw JobLost(*lost_);
}

void Arrivals::check_alive() {
  MutexLock lock(mutex_);
  if (lost_) throw JobLost(*lost_);
}

void Arrivals::lose(const std::string& why) {
  {
    MutexLock lock(mutex_);
    if (!lost_) lost_ = why;
  }
  changed_.notify_all();
}

}  // namespace poseidon::trainer
