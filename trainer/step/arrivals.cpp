#include "trainer/step/arrivals.h"

#include "trainer/step/job_failed.h"

namespace poseidon::trainer {

namespace {

constexpr auto kLongWait = std::chrono::seconds(1);

}  // namespace

// push() and set_failed() notify while they hold the lock. The waiting thread may destroy this
// object as soon as it has received the layer or the failure.

void Arrivals::push(uint32_t layer) {
  MutexLock lock(mutex_);
  layers_.push_back(layer);
  changed_.notify_one();
}

std::optional<uint32_t> Arrivals::take() {
  MutexLock lock(mutex_);
  if (failure_ || layers_.empty()) return std::nullopt;
  const uint32_t layer = layers_.front();
  layers_.pop_front();
  return layer;
}

/// Waits for a layer or a failure. If the wait lasts beyond `notice`, calls long_wait_begins_ once
/// and returns true.
bool Arrivals::wait_for_layer(Clock::time_point notice) {
  bool is_long = false;
  while (!failure_ && layers_.empty()) {
    if (is_long) {
      changed_.wait(mutex_);
    } else if (!changed_.wait_until(mutex_, notice)) {
      is_long = true;
      long_wait_begins_();
    }
  }
  return is_long;
}

void Arrivals::wait() {
  const Clock::time_point notice = Clock::now() + kLongWait;
  MutexLock lock(mutex_);
  const bool was_long = wait_for_layer(notice);
  if (failure_) throw JobFailed(*failure_);
  if (was_long) long_wait_ends_();
}

void Arrivals::check_alive() {
  MutexLock lock(mutex_);
  if (failure_) throw JobFailed(*failure_);
}

void Arrivals::set_failed(const std::string& why) {
  MutexLock lock(mutex_);
  if (!failure_) failure_ = why;
  changed_.notify_all();
}

void Arrivals::clear_failure() {
  MutexLock lock(mutex_);
  failure_.reset();
}

}  // namespace poseidon::trainer
