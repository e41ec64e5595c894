#pragma once

#include <chrono>
#include <cstdint>

namespace poseidon::trainer {

class CoordinatorIo;

/// Informs the workers about the reports that the run's files contain, at most once a second. A
/// worker stores each report until it is informed (ReportLog). Used by the main thread.
class Acknowledger {
 public:
  /// `io` must outlive this object.
  explicit Acknowledger(CoordinatorIo& io) : io_(io) {}

  /// Call it after all steps of this view up to `step`, and all tests before `step`, are recorded.
  /// Sends a RecordedNote to each worker of the view, unless the last one was less than a second
  /// ago or the view has ended. `workers`: number of workers in the view.
  void recorded(int64_t step, uint32_t view, int64_t workers);

 private:
  CoordinatorIo& io_;
  std::chrono::steady_clock::time_point told_{};
};

}  // namespace poseidon::trainer
