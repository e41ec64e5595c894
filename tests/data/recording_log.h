#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/log.h"
#include "core/mutex.h"

namespace poseidon::data {

/// A log that keeps warnings. Thread-safe.
class RecordingLog final : public Log {
 public:
  void info(std::string_view) override {}
  void warning(std::string_view message) override {
    MutexLock lock(mutex_);
    warnings_.emplace_back(message);
  }
  std::vector<std::string> sorted() {
    MutexLock lock(mutex_);
    std::sort(warnings_.begin(), warnings_.end());
    return warnings_;
  }

 private:
  Mutex mutex_;
  std::vector<std::string> warnings_ GUARDED_BY(mutex_);
};

}  // namespace poseidon::data
