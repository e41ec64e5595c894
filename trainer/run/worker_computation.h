#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/run/computation.h"
#include "trainer/run/device_threads.h"

namespace poseidon::trainer {

/// The training objects of a worker: a Computation for each of its devices, each in its own thread.
/// Queries go to the first device, since all devices have the same values. Used by the worker's
/// main thread, which is the compute thread of the first device.
class WorkerComputation {
 public:
  /// Factories. The device's thread calls them with the device's index.
  struct Makers {
    std::function<layers::Backend(size_t device)> backend;
    /// Called for the first device before all other devices.
    std::function<std::unique_ptr<GradientExchange>(size_t, net::Net&, layers::Updater&)> exchange;
    /// Wakes all devices that wait for sums after one device has failed. May be null.
    std::function<void(const std::string& why)> set_failed = nullptr;
  };

  /// The objects that `part` refers to must stay valid until end_plan() or destruction. Throws
  /// ConfigError, RunError.
  WorkerComputation(const WorkerPart& part, const net::Net::Options& options, Makers makers,
                    Log& log);
  ~WorkerComputation();
  WorkerComputation(const WorkerComputation&) = delete;
  WorkerComputation& operator=(const WorkerComputation&) = delete;

  // For a later view of the job with another plan. The nets and optimizers continue to exist.
  /// Reverts to the complete step `step`, and destroys the loop, loader and exchange. nullopt: each
  /// device reverts to its own last complete step, because its values will be replaced.
  void end_plan(std::optional<int64_t> step);
  /// Continues with another plan. The objects that `part` refers to must stay valid until
  /// end_plan() or destruction. Throws ConfigError, RunError.
  void plan(const WorkerPart& part);
  /// See Computation::restore_initial_values.
  void restore_initial_values();

  // As in TrainingLoop, for all devices.
  StepReport step();
  void drain_for_checkpoint();
  void finish();
  void revert_to(int64_t step);
  /// After step() has thrown: abandons the step in progress. Returns the last complete step, to
  /// which drain_for_checkpoint() then brings the parameters. Returns nullopt if an update of a
  /// later step has begun: the parameters then belong to no step.
  std::optional<int64_t> abandon_step();
  /// The last step that is complete on all devices. All devices can revert to this step: each
  /// device contributes to every sum, so no device is far ahead.
  int64_t last_complete_step() const;
  /// The earliest step to which all devices can revert.
  int64_t earliest_revertible_step() const;
  int64_t steps_done() const { return first().steps.loop->steps_done(); }

  /// Throws RunError if a device's values differ from the first device's. Call it after
  /// drain_for_checkpoint().
  void compare_devices();
  /// Tensors that read from the first device, and write to all devices.
  const RunTensors& tensors() const { return tensors_; }
  /// The state that a checkpoint of `step` stores besides the tensors.
  RunState state_after(int64_t step);
  /// Number of steps whose sums stay in flight. Valid after drain_for_checkpoint().
  int64_t in_flight() const { return first().sums.steps(); }
  /// Calls `use`, which runs a test on the first device. During the call the net holds the EMA, if
  /// the job has one and any update was made. Call it after drain_for_checkpoint().
  void with_ema(const std::function<void()>& use);
  const WorkerPart& part() const { return *part_; }
  Engine& engine() { return first().engine; }

 private:
  Computation& first() const { return *devices_[0]; }
  void make(const WorkerPart& part, const net::Net::Options& options);
  void end();

  const Makers makers_;
  Log& log_;
  std::unique_ptr<const WorkerPart> part_;  ///< of the current plan
  SilentLog silent_log_;                    ///< of all devices but the first
  std::vector<std::unique_ptr<Computation>> devices_;
  DeviceThreads threads_;
  RunTensors tensors_;
};

}  // namespace poseidon::trainer
