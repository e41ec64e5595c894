#pragma once

#include <span>
#include <string>
#include <vector>

#include "comm/plan/plan.h"
#include "trainer/messages/notes.h"

/// The reports of steps and tests that each worker sends to the coordinator. These functions make
/// and check the reports, and combine the reports of all workers.
namespace poseidon::trainer {

/// Payload bytes that one worker sent plus received, by scheme.
using SchemeBytes = comm::ByScheme<int64_t>;
SchemeBytes bytes_by_scheme(const comm::Plan& plan, std::span<const comm::LayerBytes> layers);

/// The note of one worker about a step. `bytes` were moved since the worker's last note.
StepNote step_note(const StepReport& report, SchemeBytes bytes);

struct WorkerStep {
  StepReport report;
  SchemeBytes bytes;
};
/// Returns the report and the bytes in a note from worker `rank`. Throws ConfigError if the note
/// does not fit the plan.
WorkerStep worker_step(const StepNote& note, int64_t step, uint32_t rank, const comm::Plan& plan);

/// Combines the reports of all workers, listed by rank: losses over the global batch, mean times,
/// bytes per node.
StepReport join_steps(const std::vector<WorkerStep>& workers, const comm::Plan& plan);

/// Throws ConfigError unless worker `rank` reports one sum for each of its logical shards.
void check_parts(const TestSums& sums, uint32_t rank, const comm::Plan& plan);

/// The result of a test, from the sums of all workers by rank.
TestResult join_tests(const std::vector<TestSums>& workers, const comm::Plan& plan);

/// Total times of the added steps, by worker and by layer.
class TimeTable {
 public:
  TimeTable(size_t workers, size_t layers);
  void add(size_t worker, const StepReport& report);
  /// A list with an entry for each worker: {"worker", "compute_s", "data_wait_s", "sum_wait_s",
  /// "sum_waits": [{"layer", "s"}]}. "sum_waits" lists the layers with a total wait of at least 0.1
  /// ms, longest first.
  Json workers(const comm::Plan& plan) const;
  /// Total seconds of waiting for the layer's sums, mean over the workers.
  double layer_wait_s(size_t layer) const;

 private:
  struct Worker {
    StepTimes times;
    std::vector<double> layer_wait_ms;
  };
  std::vector<Worker> workers_;
};

}  // namespace poseidon::trainer
