#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "comm/exchange/worker_exchange.h"
#include "comm/membership/member.h"
#include "comm/simulation/replica.h"
#include "comm/simulation/world.h"
#include "comm/step/step_limit.h"
#include "comm/step/step_machine.h"

namespace poseidon::comm {

/// The steps of a simulated worker, as in the training loop, but without blocking. A waiting step
/// continues when the awaited event arrives.
class SimulatedTraining {
 public:
  struct Callbacks {
    /// Calls `action` after `wait`, unless the worker has stopped or ended by then.
    std::function<void(Time wait, std::function<void()> action)> after;
    /// Sends a checkpoint of the steps done.
    std::function<void()> send_checkpoint;
  };

  /// `world`, `member` and `replica` must outlive this object. `seed` randomizes the computation
  /// times.
  SimulatedTraining(SimulatedWorld& world, Member& member, SimulatedReplica& replica,
                    Callbacks callbacks, uint64_t seed);

  /// Begins a view: starts its first step, or ends if all steps are done. `exchange` and its `plan`
  /// must stay valid until the view ends.
  void begin(WorkerExchange& exchange, const Plan& plan);
  /// Records that the sums of a layer have arrived, and continues a step that waits for them.
  void arrived(uint64_t step, uint32_t layer);
  int64_t offer_halt() { return limit_.offer(); }
  /// Ends the steps after `step`: finally (kEnd), or until nodes have joined (kPause).
  void end_after(int64_t step, StepLimit::Next then);
  /// Abandons the current step and continues from `step`. `in_flight` has a value if the parameters
  /// come from a checkpoint or another worker: the number of steps whose sums are still in flight.
  void go_to(int64_t step, std::optional<int64_t> in_flight);
  const StepMachine& machine() const { return machine_; }

 private:
  uint64_t step() const { return static_cast<uint64_t>(machine_.done()); }
  size_t layers() const { return world_.options.plan.layers.size(); }
  bool is_sync_due() const;
  Time compute_time(uint32_t layer, bool forward);
  void begin_step();
  void forward(uint32_t layer);
  void backward(uint32_t layer);
  void contribute(uint32_t layer, bool statistics);
  void contribute_factors(uint32_t layer);
  void count(uint32_t layer, const Contribution& contribution);
  void pass_to_exchange(uint32_t layer, const Contribution& contribution);
  void end_of_step();
  void sync();
  void test(int64_t batch);
  void go_on();
  bool open_gate(uint32_t layer);
  void make_updates();
  void update(size_t layer);

  SimulatedWorld& world_;
  Member& member_;
  SimulatedReplica& replica_;
  const Callbacks callbacks_;
  uint64_t random_;
  WorkerExchange* exchange_ = nullptr;  ///< null until begin()
  const Plan* plan_ = nullptr;          ///< of the view; null until begin()
  StepMachine machine_;
  StepLimit limit_;
  uint64_t drawn_ = 0;  ///< index of the next global batch
  uint64_t batch_ = 0;  ///< the batch of the current step
  /// With Overlap::kNone: contributions and their layers, held back until the backward pass ends.
  std::vector<std::pair<uint32_t, Contribution>> held_back_;
  std::optional<uint32_t> gate_;  ///< the layer whose forward pass waits
  bool undecided_ = false;        ///< waits until the coordinator decides the last step
  bool syncing_ = false;          ///< waits for all sums before it sends digests
  bool pausing_ = false;          ///< waits for joiners once all updates are made
};

}  // namespace poseidon::comm
