#pragma once

#include <chrono>
#include <cstdint>

namespace poseidon::trainer {

class CoordinatorIo;

/// Informs the workers, at most once a second, which of their reports are in the run's files.
/// Workers store their reports until then (ReportLog). Used by the main thread.
class Acknowledger {
 public:
  /// `io` must outlive this object.
  explicit Acknowledger(CoordinatorIo& io) : io_(io) {}

  /// All steps of this view up to `step` are recorded, and all tests before `step`. `workers`:
  /// number of workers in the view.
  void recorded(int64_t step, uint32_t view, int64_t workers);

 private:
  CoordinatorIo& io_;
  std::chrono::steady_clock::time_point told_{};
};

}  // namespace poseidon::trainer
