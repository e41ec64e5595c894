#include "trainer/measure/timing.h"

#include <chrono>
#include <cmath>

#include "core/error.h"
#include "core/philox.h"

namespace poseidon::trainer {

namespace {

void fill_input(net::Net& net) {
  RandomStream random(1, RandomPurpose::kGeneration, 0, 0);
  std::vector<float> values(static_cast<size_t>(net.input_shape().count()));
  std::vector<float> extras(
      static_cast<size_t>(net.input_shape().samples() * count_of(net.batch_receiver().extras())));
  for (auto* list : {&values, &extras})
    for (float& value : *list) value = random.next_uniform(-1, 1);
  net.set_input(values, extras);
}

constexpr double kLongTiming = 5;  ///< seconds; longer timings are announced in the log

constexpr layers::StepParameters kFirstStep{.seed = 1};

/// The context of the job's first step, on a batch with these labels.
layers::StepContext step_on(std::span<const int32_t> labels, const Job& job) {
  return {.phase = layers::Phase::kTrain,
          .numbers = &kFirstStep,
          .labels = labels,
          .loss_scale = 1 / static_cast<float>(job.config.global_batch())};
}

std::vector<int32_t> first_labels(const Job& job) {
  return std::vector<int32_t>(static_cast<size_t>(job.config.shard_batch()), 0);
}

}  // namespace

std::vector<net::Timing> time_on_random_values(const Job& job, net::Net& net, int repeats,
                                               Log& log) {
  net.values().initialize(static_cast<uint64_t>(job.config.train.seed));
  fill_input(net);
  const std::vector<int32_t> labels = first_labels(job);
  const layers::StepContext context = step_on(labels, job);
  using Clock = std::chrono::steady_clock;
  net.diagnosis().time(context, 1);  // warm-up: touches memory, compiles code
  const Clock::time_point start = Clock::now();
  net.diagnosis().time(context, 1);
  const double expected_s = std::chrono::duration<double>(Clock::now() - start).count() * repeats;
  if (expected_s > kLongTiming)
    log.info(text("timing each layer in ", repeats, " steps, which takes about ",
                  std::llround(expected_s), " s"));
  return net.diagnosis().time(context, repeats);
}

double time_pass(const Job& job, net::Net& net, int repeats) {
  const std::vector<int32_t> labels = first_labels(job);
  const layers::StepContext context = step_on(labels, job);
  net.diagnosis().time_pass(context, 1);
  return net.diagnosis().time_pass(context, repeats);
}

}  // namespace poseidon::trainer
