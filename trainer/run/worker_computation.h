#pragma once

#include <functional>
#include <memory>
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

  /// What `part` names must outlive it. Throws ConfigError, RunError.
  WorkerComputation(const WorkerPart& part, const net::Net::Options& options, const Makers& makers,
                    Log& log);
  ~WorkerComputation();
  WorkerComputation(const WorkerComputation&) = delete;
  WorkerComputation& operator=(const WorkerComputation&) = delete;

  // As TrainingLoop, of all devices.
  StepReport step();
  void settle_for_checkpoint();
  void finish();
  void revert_incomplete();
  int64_t steps_done() const { return first().loop->steps_done(); }

  /// Throws RunError where a device has other values than the first, all of which are settled.
  void compare_devices();
  /// Read from the first device, and set on all.
  const RunTensors& tensors() const { return tensors_; }
  /// What a checkpoint says of `step` beside the tensors.
  RunState state_after(int64_t step) { return first().state_after(step); }
  /// Steps whose sums stay in flight, once settled.
  int64_t in_flight() const { return first().sums.steps(); }
  const WorkerPart& part() const { return first().part; }
  Engine& engine() { return first().engine; }

 private:
  Computation& first() const { return *devices_[0]; }
  void make(const WorkerPart& part, const net::Net::Options& options, const Makers& makers,
            Log& log);
  void end();

  SilentLog said_by_the_first_;
  std::vector<std::unique_ptr<Computation>> devices_;
  DeviceThreads threads_;
  RunTensors tensors_;
};

}  // namespace poseidon::trainer
