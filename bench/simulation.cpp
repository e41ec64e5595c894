// Measures how many messages per second the simulated network processes. The job has eight
// convolutions of 500,000 weights with the parameter-server scheme. As in the planning of a large
// cluster, messages have sizes but no payload.
//   bench_simulation [WORKERS] [STEPS]

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "comm/simulation/job.h"

using namespace poseidon::comm;

namespace {

Plan planning_plan(int64_t workers) {
  PlanRequest request;
  request.workers = request.servers = workers;
  request.global_batch = workers;
  request.scheme = SchemeRule::kPs;
  for (int i = 0; i < 8; ++i)
    request.layers.push_back({.name = "conv" + std::to_string(i),
                              .type = "convolution",
                              .tensors = {{"weight", 500'000, false}, {"bias", 512, false}}});
  return make_plan(request);
}

}  // namespace

int main(int count, char** words) {
  const int64_t workers = count > 1 ? std::atoll(words[1]) : 32;
  const int64_t steps = count > 2 ? std::atoll(words[2]) : 10;
  std::printf("%8s %8s %12s %10s %14s %12s\n", "workers", "steps", "messages", "seconds",
              "messages/s", "simulated s");
  for (int round = 0; round < 3; ++round) {
    const SimulatedJobOptions options{.plan = planning_plan(workers),
                                      .network = {.bytes_per_second = 1.25e8},
                                      .steps = steps,
                                      .agree_every = steps,
                                      .carries_payload = false};
    const auto start = std::chrono::steady_clock::now();
    const SimulatedJobResult result = run_job(options);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf(
        "%8ld %8ld %12lu %10.2f %14.0f %12.2f%s\n", workers, steps, result.frames, seconds,
        static_cast<double>(result.frames) / seconds,
        std::chrono::duration<double>(result.duration).count(),
        result.ended && result.outcome && result.outcome->finished ? "" : "  did not finish");
  }
}
