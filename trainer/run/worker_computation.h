#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/run/computation.h"
#include "trainer/run/device_threads.h"

namespace poseidon::trainer {

/// Everything that computes in a worker: a Computation for each of its devices, in a thread of its
/// own, and what all of them do at once. What is asked of one is asked of the first: the others
/// have the same values. Used by the worker's main thread, which is that of the first device.
class WorkerComputation {
 public:
  /// What is made in a device's thread, by its number.
  struct Makers {
    std::function<layers::Backend(size_t device)> backend;
    /// That of the first device is made before all others'.
    std::function<std::unique_ptr<GradientExchange>(size_t, net::Net&, layers::Updater&)> exchange;
    /// Has all devices end that wait for sums: one of them has failed. May be null.
    std::function<void(const std::string& why)> lose = nullptr;
  };

  /// What `part` names must outlive its steps. Throws ConfigError, RunError.
  WorkerComputation(const WorkerPart& part, const net::Net::Options& options, Makers makers,
                    Log& log);
  ~WorkerComputation();
  WorkerComputation(const WorkerComputation&) = delete;
  WorkerComputation& operator=(const WorkerComputation&) = delete;

  // Another view of the job, by another plan: the values stay.
  /// Goes back to `step`, a complete one, and ends all that is of the plan so far. None: each
  /// device goes back to its own last one, since other values follow.
  void end_plan(std::optional<int64_t> step);
  /// Goes on by another plan; its objects must outlive the steps. Throws ConfigError, RunError.
  void plan(const WorkerPart& part);
  /// Takes the values that it was made with.
  void begin_anew();

  // As TrainingLoop, of all devices.
  StepReport step();
  void settle_for_checkpoint();
  void finish();
  void revert_to(int64_t step);
  /// When step() has thrown: gives up the step under way. Returns the last complete step, which
  /// settle_for_checkpoint() then brings the parameters to; none if an update of a later step has
  /// begun, so that the parameters are of no step.
  std::optional<int64_t> abandon_step();
  /// The last step that is complete on all devices, to which all can go back: each of them gives
  /// its part to every sum.
  int64_t last_complete_step() const;
  /// The earliest step that all devices can go back to.
  int64_t least_complete_step() const;
  int64_t steps_done() const { return first().steps.loop->steps_done(); }

  /// Throws RunError where a device has other values than the first, all of which are settled.
  void compare_devices();
  /// Read from the first device, and set on all.
  const RunTensors& tensors() const { return tensors_; }
  /// What a checkpoint says of `step` beside the tensors.
  RunState state_after(int64_t step);
  /// Steps whose sums stay in flight, once settled.
  int64_t in_flight() const { return first().sums.steps(); }
  /// Calls `use`, which tests on the first device: with the averages of all updates where the job
  /// has them, and any has been made. All are settled.
  void with_averages(const std::function<void()>& use);
  const WorkerPart& part() const { return *part_; }
  Engine& engine() { return first().engine; }

 private:
  Computation& first() const { return *devices_[0]; }
  void make(const WorkerPart& part, const net::Net::Options& options);
  void end();

  const Makers makers_;
  Log& log_;
  std::unique_ptr<const WorkerPart> part_;  ///< by the plan that holds
  SilentLog said_by_the_first_;
  std::vector<std::unique_ptr<Computation>> devices_;
  DeviceThreads threads_;
  RunTensors tensors_;
};

}  // namespace poseidon::trainer
