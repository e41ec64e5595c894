#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "comm/wire/messages.h"
#include "comm/wire/transport.h"
#include "core/mutex.h"

namespace poseidon::trainer {

/// Reports of steps and tests that a worker has sent and the coordinator has not acknowledged. If
/// the coordinator fails, the worker sends these reports to the next coordinator of the run. Memory
/// is bounded: the oldest reports are dropped first. Thread-safe.
class ReportLog {
 public:
  static constexpr size_t kMaxBytes = size_t{16} << 20;

  /// Adds the sent report of `step`; `encoded` is the message.
  void add(int64_t step, bool is_test, comm::Payload encoded);
  /// Removes the reports of the steps up to `step`, and of the tests of earlier steps: the
  /// coordinator has recorded them.
  void acknowledge(int64_t step);
  /// Removes all reports, because another view begins.
  void clear();
  /// The stored messages of the steps up to `step` and their tests, oldest first.
  std::vector<std::string> messages(int64_t step) const;

 private:
  struct Entry {
    int64_t step;
    bool is_test;
    comm::Payload encoded;
  };
  void drop_oldest() REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::deque<Entry> entries_ GUARDED_BY(mutex_);
  size_t bytes_ GUARDED_BY(mutex_) = 0;
};

}  // namespace poseidon::trainer
