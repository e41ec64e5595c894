#pragma once

#include <vector>

#include "comm/simulation/job.h"

namespace poseidon::comm {

/// Three workers and two servers, ten steps of a few milliseconds, a timeout of 3 s for node
/// failures.
inline SimulatedJobOptions small_job() {
  PlanRequest request;
  request.workers = 3;
  request.servers = 2;
  request.global_batch = 3;
  request.layers = {
      {.name = "conv1", .type = "convolution", .tensors = {{"conv1.weight", 30'000, false}}},
      {.name = "conv2", .type = "convolution", .tensors = {{"conv2.weight", 40'000, false}}}};
  SimulatedJobOptions options{.plan = make_plan(request), .network = {}};
  options.timeout = std::chrono::seconds(3);
  return options;
}

inline SimulatedJobResult run_with(SimulatedJobOptions options, std::vector<Fault> faults) {
  options.faults = std::move(faults);
  return run_job(options);
}

}  // namespace poseidon::comm
