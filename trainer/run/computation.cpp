#include "trainer/run/computation.h"

#include <algorithm>

#include "trainer/step/net_batches.h"

namespace poseidon::trainer {

namespace {

std::vector<data::ShardRange> ranges_of(const WorkerPart& part, comm::Part own) {
  std::vector<data::ShardRange> shards;
  for (uint32_t shard = own.first; shard < own.first + own.count; ++shard) {
    const IndexRange rows = part.plan.rows_of({shard, 1});
    shards.push_back({rows.first, rows.count});
  }
  return shards;
}

data::LoaderOptions loader_options(const WorkerPart& part, comm::Part shards, net::Net& net) {
  const JobConfig& config = part.job.config;
  return {.phase = data::Phase::kTrain,
          .seed = static_cast<uint64_t>(config.train.seed),
          .shuffle = config.data.train.shuffle,
          .on_error = config.data.train.on_error,
          .corrupt = part.data.corrupt.get(),
          .global_batch = part.plan.global_batch,
          .extras = net.batch_receiver().extras(),
          .shards = ranges_of(part, shards),
          .start_step = part.published.first_step,
          .threads = static_cast<int>(config.data.loader_threads),
          .memory = memory_for(net)};
}

TrainingLoop::Options loop_options(const WorkerPart& part, comm::Part shards, SumsInFlight& sums) {
  return {.seed = static_cast<uint64_t>(part.job.config.train.seed),
          .global_batch = part.plan.global_batch,
          .logical_shards = part.plan.logical_shards(),
          .shards = ranges_of(part, shards),
          .steps_done = part.published.first_step,
          .staleness = part.plan.staleness,
          .barrier = part.plan.overlap != comm::Overlap::kPriority,
          .sums = &sums,
          .trace = part.trace,
          .between_passes = part.between_passes};
}

}  // namespace

Computation::Computation(layers::Backend backend, const net::Net::Options& options,
                         const WorkerPart& part, Log& log)
    : engine(std::move(backend), part.job, options, log),
      optimizer(part.job.config.optimizer, engine.net(), engine.updater()),
      sums(engine.net(), std::max(part.plan.staleness, part.published.in_flight)),
      tensors(tensors_of(engine.net(), optimizer, sums)),
      schedule(schedule_of(part.job, part.published.steps, part.data.dataset->size())) {
  // A joiner receives all values from the coordinator. Initializing the values first would delay
  // the running workers.
  if (!part.published.again)
    engine.net().values().initialize(static_cast<uint64_t>(part.job.config.train.seed));
}

void Computation::plan(const WorkerPart& part, comm::Part shards, const MakeExchange& make_exchange,
                       Log& log) {
  const PublishedPlan& published = part.published;
  sums.begin_with(published.first_step - published.in_flight, published.in_flight);
  steps_done = published.first_step;
  steps.exchange = make_exchange(engine.net(), engine.updater());
  steps.loader = std::make_unique<data::Loader>(*part.data.dataset, *part.data.transform,
                                                loader_options(part, shards, engine.net()), log);
  steps.loop = std::make_unique<TrainingLoop>(engine.net(), optimizer, *steps.exchange, schedule,
                                              *steps.loader, loop_options(part, shards, sums));
}

/// Destroys the objects in reverse order of their creation, because each object uses the previous
/// ones.
void Computation::end_plan(std::optional<int64_t> step) {
  steps_done = step.value_or(last_complete_step());
  revert_to(steps_done);
  steps.loop.reset();
  steps.loader.reset();
  steps.exchange.reset();
}

void Computation::restore_initial_values(const Job& job) {
  engine.net().values().initialize(static_cast<uint64_t>(job.config.train.seed));
  const auto clear = [](const NamedTensor& tensor) {
    tensor.set(std::vector<float>(tensor.count()));
  };
  std::ranges::for_each(tensors.optimizer, clear);
  for (const NamedTensor& tensor : tensors.weights)
    if (Ema::is_name(tensor.name)) clear(tensor);
}

int64_t Computation::last_complete_step() const {
  return steps.loop != nullptr ? steps.loop->last_complete_step() : steps_done;
}

int64_t Computation::earliest_revertible_step() const {
  return steps.loop != nullptr ? steps.loop->earliest_revertible_step() : steps_done;
}

void Computation::revert_to(int64_t step) {
  if (steps.loop != nullptr) steps.loop->revert_to(step);
}

}  // namespace poseidon::trainer
