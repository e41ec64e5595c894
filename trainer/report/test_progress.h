#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "trainer/report/console.h"

namespace poseidon::trainer {

/// Shows the progress of a test. On a terminal, it overwrites the live line. Otherwise it writes a
/// line after 10 s, 20 s, 40 s and so on. Used by one thread.
class TestProgress {
 public:
  /// `what` names the activity, for example "testing". `console` must outlive this object.
  TestProgress(Console& console, std::string what) : console_(console), what_(std::move(what)) {}

  /// Shows that `done` of `of` batches are tested, if a line is due. `done` = 0 begins a test.
  void at(int64_t done, int64_t of);

 private:
  using Clock = std::chrono::steady_clock;

  Console& console_;
  const std::string what_;
  Clock::time_point start_{}, next_{};
};

}  // namespace poseidon::trainer
