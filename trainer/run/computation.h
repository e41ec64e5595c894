#pragma once

#include <memory>
#include <vector>

#include "trainer/plan/published_plan.h"
#include "trainer/state/run_tensors.h"
#include "trainer/step/cluster_exchange.h"
#include "trainer/step/engine.h"
#include "trainer/step/optimizer.h"
#include "trainer/step/step_limit.h"
#include "trainer/step/training_loop.h"

namespace poseidon::trainer {

/// Everything that computes in one worker of several, once the plan is known.
struct Computation {
  /// `job`, `plan`, `data` and `trace`, which may be null, must outlive it. Throws ConfigError,
  /// RunError.
  Computation(layers::Backend backend, const Job& job, const PublishedPlan& published,
              const comm::Plan& plan, uint32_t rank, const PreparedData& data,
              ClusterExchange::Post post, TraceRecorder* trace, Log& log);

  Engine engine;
  Optimizer optimizer;
  SumsInFlight sums;
  RunTensors tensors;
  ClusterExchange exchange;
  Schedule schedule;
  std::vector<data::ShardRange> shards;
  std::unique_ptr<data::Loader> loader;
  std::unique_ptr<TrainingLoop> loop;
  StepLimit limit;
};

}  // namespace poseidon::trainer
