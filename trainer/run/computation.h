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

/// What a worker computes, once the plan is known: its part of a job's steps, of which one worker
/// alone has all.
struct WorkerPart {
  const Job& job;
  const PublishedPlan& published;
  const comm::Plan& plan;
  const PreparedData& data;        ///< the training set
  uint32_t rank = 0;               ///< of the worker
  TraceRecorder* trace = nullptr;  ///< of the first device's compute thread; may be null
  /// As TrainingLoop::Options has it, of the first device.
  std::function<void(int64_t done)> between_passes = nullptr;
};

/// The steps of a computation by one plan: what is made anew where another view of the job has
/// another one.
struct PlannedSteps {
  std::unique_ptr<GradientExchange> exchange;
  std::unique_ptr<data::Loader> loader;
  std::unique_ptr<TrainingLoop> loop;
};

/// Everything that computes in a worker on one of its devices: a net with its optimizer, which stay
/// for the whole run, and the steps by the plan that holds. Made and used by the device's compute
/// thread.
struct Computation {
  /// Makes what sums the gradients of the net.
  using MakeExchange =
      std::function<std::unique_ptr<GradientExchange>(net::Net&, layers::Updater&)>;

  /// `part`'s objects must outlive its steps. It has first values, and no steps yet. Throws
  /// ConfigError, RunError.
  Computation(layers::Backend backend, const net::Net::Options& options, const WorkerPart& part,
              Log& log);

  /// Makes the steps: the device has `shards` of the worker's part. There are none from before.
  /// Throws ConfigError, RunError.
  void plan(const WorkerPart& part, comm::Part shards, const MakeExchange& make_exchange, Log& log);
  /// Goes back to a complete step, the last one where none is named, and ends the steps.
  void end_plan(std::optional<int64_t> step);
  /// Takes the values that it was made with.
  void begin_anew(const Job& job);

  // As TrainingLoop; without steps it stands where they were to begin.
  int64_t last_complete_step() const;
  int64_t least_complete_step() const;
  void revert_to(int64_t step);

  Engine engine;
  Optimizer optimizer;
  SumsInFlight sums;
  RunTensors tensors;
  Schedule schedule;
  PlannedSteps steps;
  int64_t stands_at = 0;  ///< without steps: how many are done
};

}  // namespace poseidon::trainer
