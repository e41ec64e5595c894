#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/step/step_machine.h"
#include "core/trace.h"
#include "data/loader.h"
#include "net/net.h"
#include "trainer/job/schedule.h"
#include "trainer/step/device_trace.h"
#include "trainer/step/exchange.h"
#include "trainer/step/layer_updates.h"
#include "trainer/step/optimizer.h"
#include "trainer/step/step_report.h"
#include "trainer/step/sums_in_flight.h"

namespace poseidon::trainer {

/// The training loop with wait-free backpropagation. Each layer's gradient is contributed to the
/// exchange as soon as the backward pass has computed it. Each layer's parameters and running
/// statistics are updated as soon as their sums have arrived. The next forward pass waits for one
/// layer at a time. comm::StepMachine decides when each update is due, also with staleness. Used by
/// the compute thread.
///
/// If the exchange is local, no pass waits for another device. Then, with an asynchronous device
/// and without a trace, the loop issues large units of work (halves_): the forward pass, two halves
/// of the backward pass, and the updates of each half. The updates of the first half overlap with
/// the second half.
///
/// The updates of a step may end within the next step. If the exchange fails, the layers may be at
/// two different steps. With two versions (Net::Options::versions) the loop can revert to the last
/// step whose updates are all complete. If no layer has begun a later update, the loop can revert
/// one step further.
class TrainingLoop {
 public:
  struct Options {
    uint64_t seed = 1;
    int64_t global_batch = 1;
    int64_t logical_shards = 1;            ///< of all workers
    std::vector<data::ShardRange> shards;  ///< of this device, in the loader's order
    int64_t steps_done = 0;                ///< steps of the job that are done when this loop begins
    int64_t staleness = 0;                 ///< steps by which sums are late
    bool barrier = false;  ///< make no update of a step before all of its sums have arrived
    /// The sums in flight: first those of the checkpoint, later those of drain_for_checkpoint().
    /// Required with staleness, or if the checkpoint contains sums.
    SumsInFlight* sums = nullptr;
    TraceRecorder* trace = nullptr;  ///< records the compute thread; may be null
    /// Called in each step after its first forward pass, with the number of steps done before this
    /// step. Until the call returns, parameters, state and statistics have the values with which
    /// the step is computed. May be null.
    std::function<void(int64_t done)> between_passes = nullptr;
  };

  /// All arguments must outlive the loop.
  TrainingLoop(net::Net& net, Optimizer& optimizer, GradientExchange& exchange,
               const Schedule& schedule, data::Loader& loader, const Options& options);

  /// Makes one optimizer step. Throws RunError if the loss is not finite; no update of this step is
  /// then made. Passes on errors of the exchange and the loader.
  StepReport step();

  /// Brings the parameters to the values with which the next step is computed. Call it before code
  /// outside the loop reads parameters. Without staleness, it waits for all sums and updates in
  /// flight.
  void drain();
  /// Calls drain(), and waits for the sums that stay in flight. Options::sums then holds them.
  void drain_for_checkpoint();
  /// Applies the sums of all steps done, at the end of the job.
  void finish();

  int64_t steps_done() const { return machine_.done(); }
  /// The last step for which all layers are updated, including statistics.
  int64_t last_complete_step() const { return machine_.complete(); }
  /// The earliest step to which revert_to() can revert.
  int64_t earliest_revertible_step() const { return machine_.earliest_revertible(); }
  /// Reverts parameters, optimizer state and statistics to their values after `step` steps. `step`
  /// must be in [earliest_revertible_step(), last_complete_step()]. Call it after the exchange has
  /// failed. If a layer has a later update, the net must have two versions. Drops the sums in
  /// flight; steps_done() is then `step`. Exchange and loader do not revert, so this loop cannot
  /// make further steps: create a new loop on the same net and optimizer.
  void revert_to(int64_t step);
  /// Abandons the steps after `step` when one of them has failed. drain() then brings the
  /// parameters to the values with which step `step` + 1 is computed. Returns false if an update
  /// that these values do not contain has begun: the parameters then belong to no step. Do not call
  /// step() afterwards.
  bool abandon_after(int64_t step) { return !updating_ && machine_.abandon_after(step); }

 private:
  const data::Batch& next_batch();
  void run_shard(size_t shard, StepReport& report);
  void backward(const data::Batch& batch, const layers::StepContext& context, int64_t shard,
                StepReport& report);
  void label_spans();
  void contribute_statistics(int64_t shard);
  void contribute(std::span<const FinalGradient> gradients, int64_t shard);

  // `layer`: index of a layer in the net. `index`: index in Parameters::summed_layers(), as in
  // machine_.
  void open_gate(int layer);
  void take_arrivals();
  void await_update(size_t index);
  void await_arrival(size_t index);
  void await_sums(size_t index, int64_t step);
  void make_updates();
  void note_contributed();
  void update(std::span<const size_t> indices);
  int layer_at(size_t index) const { return net_.parameters().summed_layers()[index]; }

  net::Net& net_;
  GradientExchange& exchange_;
  const Schedule& schedule_;
  data::Loader& loader_;
  Options options_;
  LayerUpdates updates_;
  const bool barrier_;  ///< make no update of a step before all of its sums have arrived
  const bool halves_;   ///< divide the backward pass and the updates into two units of work each
  comm::StepMachine machine_;
  struct LayerLabels {
    TraceRecorder::Label wait = 0, update = 0, contribute = 0;
  };
  std::vector<std::optional<size_t>> index_of_;  ///< by layer
  std::vector<LayerLabels> labels_;              ///< by index
  /// By index: for each version of the layer's parameters, the event after its last read. The
  /// current version is last. The next update overwrites the first version.
  std::vector<std::vector<Event>> read_;
  std::vector<Event> updated_;       ///< by index: event after the last update
  std::vector<size_t> contributed_;  ///< indices that contributed since note_contributed()
  bool updating_ = false;            ///< an update is in progress or has failed
  TraceRecorder::Label data_label_ = 0;
  DeviceTrace device_trace_;
  StepTimes times_;                    ///< of the step in progress, except compute_ms
  std::vector<double> layer_wait_ms_;  ///< of the step in progress, by index
};

}  // namespace poseidon::trainer
