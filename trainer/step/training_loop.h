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

/// The wait-free loop: each layer's gradient goes to the exchange as soon as backward has made it,
/// each layer's parameters and running statistics are updated as soon as their sums are there, and
/// the next forward waits for one layer at a time. Which update is due when, also with staleness,
/// is comm::StepMachine's to say. Used by the compute thread.
///
/// So the updates of a step may end within the next one, and an exchange that fails leaves layers
/// of two steps. With two versions (Net::Options::versions) the loop can then go back to the last
/// step whose updates were all made, or, where that is torn nowhere, to the one before.
class TrainingLoop {
 public:
  struct Options {
    uint64_t seed = 1;
    int64_t global_batch = 1;
    int64_t logical_shards = 1;            ///< of all workers
    std::vector<data::ShardRange> shards;  ///< of this worker, as the loader gives them
    int64_t steps_done = 0;                ///< by the run that is resumed
    int64_t staleness = 0;                 ///< steps that sums are late
    bool barrier = false;  ///< no update of a step is made before all of its sums are there
    /// Needed with staleness, and where a checkpoint carried sums: those of the last steps done.
    SumsInFlight* sums = nullptr;
    TraceRecorder* trace = nullptr;  ///< of the compute thread; may be null
    /// Called in each step behind its first forward pass, with the steps done before it: until it
    /// returns, parameters, state and statistics are those that the step is computed with. May be
    /// null.
    std::function<void(int64_t done)> between_passes = nullptr;
  };

  /// All of them must outlive the loop.
  TrainingLoop(net::Net& net, Optimizer& optimizer, GradientExchange& exchange,
               const Schedule& schedule, data::Loader& loader, const Options& options);

  /// One optimizer step. Throws RunError when the loss is not finite; parameters are then those of
  /// the step before. Lets errors of the exchange through.
  StepReport step();

  /// Brings the parameters to what the next step is computed with: before they are read from
  /// outside. Without staleness, all sums and updates that are under way.
  void settle();
  /// Does so, and waits for the sums that stay in flight: Options::sums then holds them.
  void settle_for_checkpoint();
  /// Applies the sums of all steps done: at the end of the job.
  void finish();

  int64_t steps_done() const { return machine_.done(); }
  /// Steps of which every layer's update is made, statistics included.
  int64_t last_complete_step() const { return machine_.complete(); }
  /// The earliest step that revert_to() can go back to.
  int64_t least_complete_step() const { return machine_.least_complete(); }
  /// Makes parameters, optimizer state and statistics those after `step` steps, from
  /// least_complete_step() to last_complete_step(): for when the exchange has failed. Needs two
  /// versions where a layer is to go back. Sums in flight are given up, and steps_done() is `step`.
  /// Exchange and loader stand elsewhere, so this loop makes no further step: another one does, on
  /// the same net and optimizer, with those of its own.
  void revert_to(int64_t step);
  /// Gives up the steps after `step` when one of them has failed: settle() then brings the
  /// parameters to what step `step` + 1 is computed with. Returns false if an update of a later
  /// step has begun, so that the parameters are of no step. This loop makes no further step.
  bool abandon_after(int64_t step) { return !updating_ && machine_.abandon_after(step); }

 private:
  const data::Batch& next_batch();
  void run_shard(size_t shard, StepReport& report);
  SampleSums measure(const layers::StepContext& context);
  void label_spans();
  void contribute_statistics(int64_t shard);
  void contribute(int layer, int64_t shard);

  // Layers by index in Parameters::summed_layers(), as machine_ knows them.
  void open_gate(int layer);
  void take_arrivals();
  void await_update(size_t index);
  void await_arrival(size_t index);
  void await_sums(size_t index, int64_t step);
  void make_updates();
  void note_contributed();
  void update(size_t index);
  int layer_at(size_t index) const { return net_.parameters().summed_layers()[index]; }

  net::Net& net_;
  GradientExchange& exchange_;
  const Schedule& schedule_;
  data::Loader& loader_;
  Options options_;
  LayerUpdates updates_;
  const bool together_;  ///< no update of a step is made before all of its sums are there
  comm::StepMachine machine_;
  struct LayerLabels {
    TraceRecorder::Label wait = 0, update = 0, contribute = 0;
  };
  std::vector<std::optional<size_t>> index_of_;  ///< by layer
  std::vector<LayerLabels> labels_;              ///< by index
  /// By index, for each version of the layer's parameters, the current one last: when they have
  /// been read. The next update overwrites the first.
  std::vector<std::vector<Event>> read_;
  std::vector<Event> updated_;       ///< by index: when the last update is through
  std::vector<size_t> contributed_;  ///< since the loop was last between layers
  bool updating_ = false;            ///< an update has begun, and has failed or is under way
  TraceRecorder::Label data_label_ = 0;
  DeviceTrace device_trace_;
  StepTimes times_;                    ///< of the step under way, but for compute_ms
  std::vector<double> layer_wait_ms_;  ///< the same
};

}  // namespace poseidon::trainer
