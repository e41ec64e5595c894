#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "trainer/plan/published_plan.h"
#include "trainer/state/run_tensors.h"
#include "trainer/step/engine.h"
#include "trainer/step/exchange.h"
#include "trainer/step/optimizer.h"
#include "trainer/step/training_loop.h"

namespace poseidon::trainer {

/// What a worker computes, once the plan is known: its part of a job's steps, of which one worker
/// alone has all.
struct WorkerPart {
  const Job& job;
  const PublishedPlan& published;
  const comm::Plan& plan;
  const PreparedData& data;        ///< the training set
  uint32_t rank = 0;               ///< of the worker
  TraceRecorder* trace = nullptr;  ///< of the first device's compute thread; may be null
};

/// Everything that computes in a worker on one of its devices. Made and used by the device's
/// compute thread.
struct Computation {
  /// Makes what sums the gradients of the net.
  using MakeExchange =
      std::function<std::unique_ptr<GradientExchange>(net::Net&, layers::Updater&)>;

  /// Who is told of what.
  struct Logs {
    Log &net, &data;
  };

  /// The device has `shards` of the worker's part, whose objects must outlive it. Throws
  /// ConfigError, RunError.
  Computation(layers::Backend backend, const net::Net::Options& options, const WorkerPart& part,
              comm::Part shards, const MakeExchange& make_exchange, const Logs& logs);

  /// What a checkpoint says of `step` beside the tensors.
  RunState state_after(int64_t step);

  const WorkerPart part;
  Engine engine;
  Optimizer optimizer;
  SumsInFlight sums;
  RunTensors tensors;
  std::unique_ptr<GradientExchange> exchange;
  Schedule schedule;
  std::unique_ptr<data::Loader> loader;
  std::unique_ptr<TrainingLoop> loop;
};

}  // namespace poseidon::trainer
