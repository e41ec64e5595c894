#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "trainer/plan/published_plan.h"
#include "trainer/state/run_tensors.h"
#include "trainer/step/engine.h"
#include "trainer/step/exchange.h"
#include "trainer/step/optimizer.h"
#include "trainer/step/training_loop.h"

namespace poseidon::trainer {

/// The inputs of one worker's computation in a job, once the plan is known.
struct WorkerPart {
  const Job& job;
  const PublishedPlan& published;
  const comm::Plan& plan;
  const PreparedData& data;        ///< the training set
  uint32_t rank = 0;               ///< rank of the worker
  TraceRecorder* trace = nullptr;  ///< trace of the first device's compute thread; may be null
  /// As in TrainingLoop::Options, for the first device.
  std::function<void(int64_t done)> between_passes = nullptr;
};

/// The objects that depend on the plan. The worker creates them again for the plan of each view.
struct PlannedSteps {
  std::unique_ptr<GradientExchange> exchange;
  std::unique_ptr<data::Loader> loader;
  std::unique_ptr<TrainingLoop> loop;
};

/// The training objects of one device of a worker. Net and optimizer exist for the whole run;
/// `steps` follows the current plan. Created and used by the device's compute thread.
struct Computation {
  /// Creates the exchange that sums the gradients of the net.
  using MakeExchange =
      std::function<std::unique_ptr<GradientExchange>(net::Net&, layers::Updater&)>;

  /// Initializes the values, except in a later view of the job (PublishedPlan::again), in which the
  /// worker receives them. `steps` stays empty. The objects of `part` must outlive `steps`. Throws
  /// ConfigError, RunError.
  Computation(layers::Backend backend, const net::Net::Options& options, const WorkerPart& part,
              Log& log);

  /// Creates `steps`, which must be empty. `shards`: the worker's logical shards that this device
  /// computes. Throws ConfigError, RunError.
  void plan(const WorkerPart& part, comm::Part shards, const MakeExchange& make_exchange, Log& log);
  /// Reverts to the complete step `step` (nullopt: the last complete step), and destroys `steps`.
  void end_plan(std::optional<int64_t> step);
  /// Restores the state before the first step: initial values, zero optimizer state and zero EMA.
  void restore_initial_values(const Job& job);

  // As in TrainingLoop. If `steps` is empty, the first two functions return steps_done, and
  // revert_to() does nothing.
  int64_t last_complete_step() const;
  int64_t earliest_revertible_step() const;
  void revert_to(int64_t step);

  Engine engine;
  Optimizer optimizer;
  SumsInFlight sums;
  RunTensors tensors;
  Schedule schedule;
  PlannedSteps steps;
  int64_t steps_done = 0;  ///< if `steps` is empty: number of steps done
};

}  // namespace poseidon::trainer
