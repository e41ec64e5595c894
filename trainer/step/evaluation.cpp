#include "trainer/step/evaluation.h"

#include <chrono>

#include "core/failure.h"
#include "trainer/step/net_batches.h"

namespace poseidon::trainer {

TestResult TestSums::mean() const {
  return {.samples = samples, .mean = mean_of_shards(parts, samples), .seconds = seconds};
}

std::optional<TestSums> evaluate_part(net::Net& net, const PreparedData& data,
                                      const TestOptions& options, BufferCache& memory, Log& log) {
  const auto start = std::chrono::steady_clock::now();
  const int64_t round = net.input_shape().samples() * options.parts;
  std::vector<data::ShardRange> parts = data::cut_batch(round, options.parts);
  parts = {parts.begin() + options.own_parts.first, parts.begin() + options.own_parts.end()};
  data::Loader loader(*data.dataset, *data.transform,
                      {.phase = data::Phase::kTest,
                       .seed = options.seed,
                       .shuffle = false,
                       .on_error = options.on_error,
                       .corrupt = data.corrupt.get(),
                       .global_batch = round,
                       .extras = net.batch_receiver().extras(),
                       .shards = parts,
                       .threads = options.loader_threads,
                       .memory = memory_for(net, memory)},
                      log);
  TestSums sums{.parts = std::vector<SampleSums>(parts.size())};
  const int64_t batches = loader.steps_per_pass() * options.own_parts.count;
  for (int64_t step = 0; step < batches; ++step) {
    if (options.goes_on && !options.goes_on(step, batches)) return std::nullopt;
    const data::Batch& batch =
        step == 0 ? loader.next()
                  : as_run_error([&]() -> const data::Batch& { return loader.next(); });
    if (batch.valid == 0) continue;
    set_input(net, batch, loader);
    const layers::StepParameters numbers{.seed = options.seed, .step = step};
    net.forward({.phase = layers::Phase::kTest,
                 .numbers = &numbers,
                 .labels = batch.labels,
                 .loss_scale = 1});
    sums.samples += batch.valid;
    sums.parts[static_cast<size_t>(step) % parts.size()] += sums_of_batch(net, batch.valid);
    if (options.tested) options.tested(batch);
  }
  sums.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return sums;
}

std::optional<TestResult> evaluate(net::Net& net, const PreparedData& data,
                                   const TestOptions& options, Log& log) {
  BufferCache memory = batch_cache(net);
  const std::optional<TestSums> sums = evaluate_part(net, data, options, memory, log);
  if (!sums) return std::nullopt;
  return sums->mean();
}

}  // namespace poseidon::trainer
