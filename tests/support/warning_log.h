#pragma once

#include <mutex>
#include <string>

#include "core/log.h"

namespace poseidon {

/// A log that keeps the warnings.
class WarningLog final : public Log {
 public:
  void info(std::string_view) override {}
  void warning(std::string_view message) override {
    std::lock_guard lock(mutex_);
    lines_ += message;
  }
  std::string lines() {
    std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::string lines_;
};

}  // namespace poseidon
