#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "comm/wire/messages.h"

namespace poseidon::trainer {

/// Reports the activity of the compute thread immediately when it changes. Reports the same
/// activity again at most once a second. Only the compute thread may call it, because activity of
/// other threads does not show progress of the compute thread.
class ProgressReporter {
 public:
  using Report = std::function<void(const comm::Progress&)>;

  explicit ProgressReporter(Report report) : report_(std::move(report)) {}

  /// Example: report_activity("testing", 120, 500, "batches"). May be called frequently.
  void report_activity(std::string_view doing, int64_t done = 0, int64_t of = 0,
                       std::string_view unit = "") {
    const bool same = doing == last_.doing && !last_.waits;
    if (same && Clock::now() - reported_at_ < kPause) return;
    say({.doing = std::string(doing), .done = done, .of = of, .unit = std::string(unit)});
  }

  /// Reports that the compute thread waits for other nodes. `for_what` names the awaited event.
  void waits(std::string_view for_what) {
    say({.doing = "waiting for " + std::string(for_what), .unit = {}, .waits = true});
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr auto kPause = std::chrono::seconds(1);

  void say(comm::Progress progress) {
    last_ = std::move(progress);
    reported_at_ = Clock::now();
    report_(last_);
  }

  const Report report_;
  comm::Progress last_;
  Clock::time_point reported_at_{};
};

}  // namespace poseidon::trainer
