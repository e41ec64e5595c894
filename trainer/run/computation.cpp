#include "trainer/run/computation.h"

#include <algorithm>

namespace poseidon::trainer {

namespace {

std::vector<data::ShardRange> shards_of(const comm::Plan& plan, uint32_t rank) {
  const comm::Part own = plan.assignment.shards_of(rank);
  std::vector<data::ShardRange> shards;
  for (uint32_t shard = own.first; shard < own.first + own.count; ++shard) {
    const IndexRange rows = plan.rows_of({shard, 1});
    shards.push_back({rows.first, rows.count});
  }
  return shards;
}

}  // namespace

Computation::Computation(layers::Backend backend, const Job& job, const PublishedPlan& published,
                         const comm::Plan& plan, uint32_t rank, const PreparedData& data,
                         ClusterExchange::Post post, TraceRecorder* trace, Log& log)
    : engine(std::move(backend), job, net_options(job, published, plan), log),
      optimizer(job.config.optimizer, engine.net(), engine.updater()),
      sums(engine.net(), std::max(plan.staleness, published.in_flight)),
      tensors(tensors_of(engine.net(), optimizer, sums)),
      exchange(engine.net(), engine.updater(), plan, rank,
               static_cast<uint64_t>(published.first_step), std::move(post)),
      schedule(job.config.optimizer.schedule, job.config.optimizer.learning_rate, published.steps,
               static_cast<double>(data.dataset->size()) /
                   static_cast<double>(job.config.global_batch()),
               job.file + ": /optimizer/schedule"),
      shards(shards_of(plan, rank)),
      limit(published.first_step, published.last_step) {
  const auto seed = static_cast<uint64_t>(job.config.train.seed);
  engine.net().values().initialize(seed);
  sums.begin_with(published.first_step - published.in_flight, published.in_flight);
  loader = std::make_unique<data::Loader>(
      *data.dataset, *data.transform,
      data::LoaderOptions{.phase = data::Phase::kTrain,
                          .seed = seed,
                          .shuffle = job.config.data.train.shuffle,
                          .on_error = job.config.data.train.on_error,
                          .global_batch = plan.global_batch,
                          .shards = shards,
                          .start_step = published.first_step,
                          .threads = static_cast<int>(job.config.data.loader_threads)},
      log);
  loop = std::make_unique<TrainingLoop>(
      engine.net(), optimizer, exchange, schedule, *loader,
      TrainingLoop::Options{.seed = seed,
                            .global_batch = plan.global_batch,
                            .logical_shards = plan.logical_shards(),
                            .shards = shards,
                            .steps_done = published.first_step,
                            .staleness = plan.staleness,
                            .barrier = plan.overlap != comm::Overlap::kPriority,
                            .sums = &sums,
                            .trace = trace});
}

}  // namespace poseidon::trainer
