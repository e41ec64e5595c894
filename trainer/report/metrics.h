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

/// Content of metrics.jsonl from earlier sessions of a run. Lines of steps after the step from
/// which the run continues are removed; the other lines are kept.
struct EarlierLines {
  Json last_train, last_test;  ///< the last kept line of each type; null: none
  Json last;                   ///< the last line, even if it was removed; null: none
  double elapsed_s = 0;        ///< "elapsed_s" of the last kept line
};

/// Reports the progress of a run to metrics.jsonl, the TensorBoard file, and the console.
class Metrics {
 public:
  struct Options {
    int64_t steps = 0;       ///< of the whole job
    int64_t steps_done = 0;  ///< number of steps done when this session begins
    int64_t last_step = 0;   ///< last step of this run
    int64_t log_every = 1;   ///< number of steps from one training line to the next
    int64_t global_batch = 1;
    int64_t epoch_samples = 1;
    ScalarKeys scalars = {};       ///< of training
    ScalarKeys test_scalars = {};  ///< of tests
    /// Called before each line is written. Throws RunError if nothing can be written, and LockLost
    /// if another process owns the run.
    std::function<void()> before_writing = [] {};
  };

  /// A resumed run keeps the lines of metrics.jsonl up to step `options.steps_done`. Throws
  /// RunError if a file cannot be created. If a new line cannot be written, this object warns once
  /// and the run continues. It throws LockLost if another process has continued the run.
  Metrics(const std::filesystem::path& folder, const Options& options, Console& console);

  const EarlierLines& earlier() const { return earlier_; }

  /// Adds a trained step to the totals. Writes a line for step 1 and for each multiple of
  /// `log_every`. `last`: the run ends with this step, so its line is always written.
  void trained(const StepReport& report, bool last);
  /// Writes the line of the last trained step if it is missing. Call it at the end of the run.
  void end();
  /// Writes the line of a test after `step` steps.
  void tested(int64_t step, const TestResult& result);
  /// Removes the lines of steps after `step`, because the run repeats them. Throws RunError.
  void forget_after(int64_t step);

  /// Samples per second of training in this session, without the time of tests and checkpoints.
  double samples_per_second() const;

 private:
  /// Totals over the steps since the last line, or over all steps of this session.
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
  bool warned_ = false;  ///< whether the warning about missing lines was logged
  Window window_, whole_;
  StepReport last_report_;
  std::chrono::steady_clock::time_point shown_{};
};

}  // namespace poseidon::trainer
