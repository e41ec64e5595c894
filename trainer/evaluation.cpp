#include "trainer/evaluation.h"

#include <algorithm>
#include <chrono>

#include "data/loader.h"
#include "trainer/training_loop.h"

namespace poseidon::trainer {

namespace {

/// Adds the first `valid` samples of a batch.
void add_batch(const std::vector<net::Net::Loss>& losses, int64_t valid, TestResult& sums) {
  const auto count = static_cast<size_t>(valid);
  for (const net::Net::Loss& loss : losses)
    for (size_t i = 0; i < count; ++i)
      sums.loss += loss.weight * static_cast<double>(loss.loss_and_rank[2 * i]);
  const std::span<const float> ranked = losses[main_loss(losses)].loss_and_rank;
  for (size_t i = 0; i < count; ++i) {
    sums.top1 += ranked[2 * i + 1] < 1 ? 1 : 0;
    sums.top5 += ranked[2 * i + 1] < 5 ? 1 : 0;
  }
  sums.samples += valid;
}

}  // namespace

std::optional<TestResult> evaluate(net::Net& net, const PreparedData& data,
                                   const TestOptions& options, Log& log) {
  const auto start = std::chrono::steady_clock::now();
  const int64_t batch_size = net.input().shape.samples();
  data::Loader loader(*data.dataset, *data.transform,
                      {.phase = data::Phase::kTest,
                       .seed = options.seed,
                       .shuffle = false,
                       .on_error = options.on_error,
                       .global_batch = batch_size,
                       .shards = data::cut_batch(batch_size, 1),
                       .threads = options.loader_threads},
                      log);
  TestResult result;
  for (int64_t step = 0; step < loader.steps_per_pass(); ++step) {
    if (options.stop && options.stop()) return std::nullopt;
    const data::Batch& batch = loader.next();
    std::ranges::copy(batch.pixels, net.input().data);
    net.forward({.phase = layers::Phase::kTest,
                 .seed = options.seed,
                 .step = step,
                 .first_sample = 0,
                 .labels = batch.labels,
                 .loss_scale = 1});
    add_batch(net.losses(), batch.valid, result);
  }
  const auto samples = static_cast<double>(result.samples);
  for (double* sum : {&result.loss, &result.top1, &result.top5}) *sum /= samples;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace poseidon::trainer
