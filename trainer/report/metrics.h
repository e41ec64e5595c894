#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "core/json.h"
#include "trainer/report/console.h"
#include "trainer/report/event_file.h"
#include "trainer/report/scalar_keys.h"
#include "trainer/step/evaluation.h"
#include "trainer/step/step_report.h"

namespace poseidon::trainer {

/// The lines of metrics.jsonl that earlier sessions of a run have written.
struct EarlierLines {
  Json last_train, last_test;  ///< of those that are kept; null where there is none
  Json last;                   ///< the very last line, kept or not; null where there is none
  double elapsed_s = 0;        ///< of the last line that is kept
};

/// What a run tells of itself while it runs: metrics.jsonl, the TensorBoard file, and the console.
class Metrics {
 public:
  struct Options {
    int64_t steps = 0;       ///< of the whole job
    int64_t steps_done = 0;  ///< when this run begins
    int64_t last_step = 0;   ///< where this run ends
    int64_t log_every = 1;
    int64_t global_batch = 1;
    int64_t epoch_samples = 1;
    ScalarKeys scalars = {};       ///< of training
    ScalarKeys test_scalars = {};  ///< of tests
    /// Called before lines are written; throws RunError when they cannot be, LockLost when they
    /// must not be.
    std::function<void()> before_writing = [] {};
  };

  /// Lines that cannot be written are warned of once; the run goes on without them, unless another
  /// process has gone on with it. A run that goes
  /// on keeps the lines of metrics.jsonl up to the step it goes on from.
  Metrics(const std::filesystem::path& folder, const Options& options, Console& console);

  const EarlierLines& earlier() const { return earlier_; }

  /// `last`: the run ends here, so the step is written whatever its number.
  void trained(const StepReport& report, bool last);
  /// The run has ended after the step that was reported last, which is written if it was not yet.
  void end();
  void tested(int64_t step, const TestResult& result);
  /// Lines of later steps are taken back. Throws RunError.
  void forget_after(int64_t step);

  /// Samples for each second of training, tests and checkpoints left out.
  double samples_per_second() const;

 private:
  /// Steps since the last line.
  struct Window {
    int64_t steps = 0;
    StepTimes times;
    comm::ByScheme<double> bytes;
    double samples_per_second(int64_t batch) const;
  };
  void write_line();
  void append(Json line, std::span<const Scalar> scalars);
  std::string progress_line(const StepReport& report) const;
  std::string accuracy_text(const SampleSums& mean) const;

  Options options_;
  Console& console_;
  const std::filesystem::path path_;  ///< of metrics.jsonl
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  EarlierLines earlier_;
  AppendFile lines_;
  EventFile events_;
  bool warned_ = false;  ///< of lines that could not be written
  Window window_, whole_;
  StepReport last_report_;
  std::chrono::steady_clock::time_point shown_{};
};

}  // namespace poseidon::trainer
