#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "tests/trainer/forwarding_exchange.h"
#include "trainer/state/run_tensors.h"
#include "trainer/step/backends.h"
#include "trainer/step/engine.h"
#include "trainer/step/named_tensor.h"
#include "trainer/step/net_batches.h"
#include "trainer/step/optimizer.h"
#include "trainer/step/training_loop.h"

/// A training run that tests execute step by step, for tests of the loop and of devices.
namespace poseidon::trainer {

/// States when the sums of a LateExchange arrive.
enum class SumTiming : uint8_t {
  kLate,   ///< some in the backward pass and some in the next forward pass, as from other workers
  kLocal,  ///< at the last contribution, as in a job with one device
};

/// A local exchange that may delay arrivals, so that some updates happen in the next forward pass
/// (SumTiming). It throws after `arrivals` arrivals; negative: never.
class LateExchange final : public ForwardingExchange {
 public:
  LateExchange(net::Net& net, layers::Updater& updater, int64_t shards,
               StalenessOptions staleness_options, int64_t arrivals, SumTiming when)
      : ForwardingExchange(
            std::make_unique<LocalExchange>(net, updater, shards, staleness_options)),
        arrivals_left_(arrivals),
        is_late_(when == SumTiming::kLate) {}

  bool is_local() const override { return !is_late_; }
  void begin_backward(int64_t shard) override {
    if (on_begin) on_begin();
    ForwardingExchange::begin_backward(shard);
  }
  void contribute_statistics(int64_t shard) override {
    if (on_contribution) on_contribution();
    ForwardingExchange::contribute_statistics(shard);
  }
  void contribute(std::span<const FinalGradient> gradients, int64_t shard) override {
    if (contributions_left_-- == 0) throw RunError("a contribution fails");
    if (on_contribution) on_contribution();
    ForwardingExchange::contribute(gradients, shard);
  }
  /// Throws after this number of further calls of contribute().
  void fail_after(int64_t contributions) { contributions_left_ = contributions; }
  std::optional<int> arrived() override {
    // Reports arrivals in every second call only, so that some layers are updated early and some
    // late.
    return is_late_ && ++polls_ % 2 == 0 ? std::nullopt : counted(ForwardingExchange::arrived());
  }
  void wait() override {
    polls_ = 0;
    ForwardingExchange::wait();
  }

  /// on_begin is called before each backward pass, on_contribution before each contribution of
  /// statistics or gradients. Both may be null.
  std::function<void()> on_begin, on_contribution;

 private:
  std::optional<int> counted(std::optional<int> layer) {
    if (layer && arrivals_left_-- == 0) throw RunError("a peer is lost");
    return layer;
  }

  int64_t arrivals_left_, contributions_left_ = -1;
  const bool is_late_;
  int64_t polls_ = 0;
};

/// A training run of the tiny job, one step at a time.
struct Training {
  explicit Training(const Job& job, net::Net::Options options = {}, int64_t arrivals = -1,
                    int64_t staleness = 0)
      : Training(make_backend(job), job, options, arrivals, staleness) {}
  Training(layers::Backend backend, const Job& job, net::Net::Options options = {},
           int64_t arrivals = -1, int64_t staleness = 0, TraceRecorder* trace = nullptr,
           SumTiming when = SumTiming::kLate)
      : data(open_data(job, DataPart::kTrain, log)),
        engine(std::move(backend), job, options, log),
        optimizer(job.config.optimizer, engine.net(), engine.updater()),
        schedule(job.config.optimizer.schedule, job.config.optimizer.learning_rate, 9, 6, ""),
        shards(data::cut_batch(job.config.global_batch(), job.config.logical_shards())),
        loader(*data.dataset, *data.transform,
               {.seed = 3,
                .global_batch = job.config.global_batch(),
                .extras = engine.net().batch_receiver().extras(),
                .shards = shards,
                .memory = memory_for(engine.net())},
               log),
        exchange(engine.net(), engine.updater(), job.config.logical_shards(),
                 {.staleness = staleness}, arrivals, when),
        sums(engine.net(), staleness),
        loop(engine.net(), optimizer, exchange, schedule, loader,
             {.seed = 3,
              .global_batch = job.config.global_batch(),
              .logical_shards = job.config.logical_shards(),
              .shards = shards,
              .staleness = staleness,
              .sums = &sums,
              .trace = trace}) {
    engine.net().values().initialize(3);
  }

  /// All values that a step changes, in canonical order.
  std::vector<float> state() {
    std::vector<float> all;
    const RunTensors tensors = tensors_of(engine.net(), optimizer);
    for (const auto* list : {&tensors.weights, &tensors.optimizer})
      for (const NamedTensor& tensor : *list) {
        std::vector<float> values(tensor.count());
        tensor.get(values);
        all.insert(all.end(), values.begin(), values.end());
      }
    return all;
  }

  SilentLog log;
  PreparedData data;
  Engine engine;
  Optimizer optimizer;
  Schedule schedule;
  std::vector<data::ShardRange> shards;
  data::Loader loader;
  LateExchange exchange;
  SumsInFlight sums;
  TrainingLoop loop;
};

/// Continues a training run after `step` steps, on the same net and optimizer.
struct LaterView {
  LaterView(Training& training, const Job& job, int64_t step)
      : loader(*training.data.dataset, *training.data.transform,
               {.seed = 3,
                .global_batch = job.config.global_batch(),
                .extras = training.engine.net().batch_receiver().extras(),
                .shards = training.shards,
                .start_step = step,
                .memory = memory_for(training.engine.net())},
               training.log),
        exchange(training.engine.net(), training.engine.updater(), job.config.logical_shards(),
                 {.first_step = step}, -1, SumTiming::kLate),
        loop(training.engine.net(), training.optimizer, exchange, training.schedule, loader,
             {.seed = 3,
              .global_batch = job.config.global_batch(),
              .logical_shards = job.config.logical_shards(),
              .shards = training.shards,
              .steps_done = step}) {}

  data::Loader loader;
  LateExchange exchange;
  TrainingLoop loop;
};

/// A variant of the tiny job that uses another path of the loop.
struct Setup {
  std::vector<std::string> overrides;
  std::vector<std::string> factored = {};

  net::Net::Options options(int versions) const {
    return {.versions = versions, .factored = factored, .factor_rows = 8};
  }
};

inline const std::vector<Setup> kSetups{
    {{}},
    {{"optimizer.type=adam"}},
    {{"cluster.logical_shards=4"}},
    {{"optimizer.clip_norm=0.1", "cluster.logical_shards=2"}},
    {{}, {"ip"}},
    {{"optimizer.type=adam", "cluster.logical_shards=4"}, {"ip"}}};

}  // namespace poseidon::trainer
