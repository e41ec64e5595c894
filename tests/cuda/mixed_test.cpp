// CPU workers and workers on a GPU that the host plays in one job: replicas equal to the bit.

#include <doctest/doctest.h>

#include "layers/cpu/backend.h"
#include "tests/cuda/played_jobs.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

layers::Backend cpu_backend() { return layers::cpu::make_cpu_backend(1, DataType::kFp32); }
layers::Backend gpu_backend() { return test::make_played_backend({}); }

/// Every second worker computes on a GPU, from the first or the second on.
std::function<layers::Backend()> by_turns(bool gpu_first) {
  return [gpu = gpu_first]() mutable {
    gpu = !gpu;
    return gpu ? cpu_backend() : gpu_backend();
  };
}

/// Shares of the global batch that are no nodes of the tree of additions.
comm::Assignment uneven(const Job& job) {
  const int64_t workers = job.config.cluster.workers;
  std::vector<int64_t> counts(static_cast<size_t>(workers), 1);
  counts[0] = job.config.logical_shards() - workers + 1;
  if (workers > 2) {
    counts[0] -= 2;
    counts[1] += 2;
  }
  const comm::PlanRequest request = plan_request(job);
  return comm::assignment_by_counts(counts, request.servers, request.servers_apart);
}

void check_job(const Job& job, int64_t steps, bool gpu_first = false) {
  REQUIRE(job.config.cluster.workers > 1);
  std::vector<std::vector<int64_t>> after;
  const auto last = train_together(job, steps, by_turns(gpu_first), uneven(job), [&](size_t, int64_t) {});
  for (const auto& each : last) CHECK(each == last[0]);
}

}  // namespace
