#include "core/mutex.h"

#include <doctest/doctest.h>

#include <thread>

using poseidon::Condition;
using poseidon::Mutex;
using poseidon::MutexLock;

namespace {

/// Passes a number from one thread to another.
class Mailbox {
 public:
  void put(int value) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    value_ = value;
    filled_.notify_one();
  }
  int take() EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    while (value_ == 0) filled_.wait(mutex_);
    return value_;
  }
  bool wait_for_nothing() EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return filled_.wait_until(mutex_,
                              std::chrono::steady_clock::now() + std::chrono::milliseconds(1));
  }

 private:
  Mutex mutex_;
  Condition filled_;
  int value_ GUARDED_BY(mutex_) = 0;
};

}  // namespace

TEST_CASE("a condition wakes the thread that waits for it") {
  Mailbox mailbox;
  std::jthread sender([&] { mailbox.put(7); });
  CHECK(mailbox.take() == 7);
}

TEST_CASE("a wait with a deadline ends without a notification") {
  Mailbox mailbox;
  CHECK_FALSE(mailbox.wait_for_nothing());
}
