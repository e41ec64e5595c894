#include <algorithm>
#include <chrono>

#include "core/philox.h"
#include "trainer/engine.h"
#include "trainer/optimizer.h"
#include "trainer/run.h"

namespace poseidon::trainer {

namespace {

constexpr int kRepeats = 9;

void fill_input(net::Net& net) {
  const Tensor input = net.input();
  RandomStream random(1, RandomPurpose::kGeneration, 0, 0);
  for (int64_t i = 0; i < input.shape.count(); ++i) input.data[i] = random.next_uniform(-1, 1);
}

/// Median milliseconds of one update of all parameters.
double update_ms(net::Net& net, Optimizer& optimizer) {
  std::vector<double> times;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    // A rate of 0: the same work, and the values stay what they are.
    for (size_t i = 0; i < net.parameters().size(); ++i)
      optimizer.update(i, {.step = repeat, .learning_rate = 0});
    times.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
            .count());
  }
  std::nth_element(times.begin(), times.begin() + kRepeats / 2, times.end());
  return times[kRepeats / 2];
}

/// Multiply-adds of a direction as 10^9 floating-point operations a second.
double gigaflops(int64_t multiply_adds, double ms) {
  return ms > 0 ? 2 * static_cast<double>(multiply_adds) / ms / 1e6 : 0;
}

}  // namespace

Json time_layers(const Job& job, Console& console) {
  Engine engine(job, choices_of(job), true, console);
  net::Net& net = engine.net();
  net.initialize(static_cast<uint64_t>(job.config.train.seed));
  fill_input(net);
  const std::vector<int32_t> labels(static_cast<size_t>(job.config.shard_batch()), 0);
  const layers::StepContext context{
      .phase = layers::Phase::kTrain,
      .seed = 1,
      .step = 0,
      .first_sample = 0,
      .labels = labels,
      .loss_scale = 1 / static_cast<float>(job.config.global_batch())};
  net.time(context, 2);  // warm: memory touched, code made
  const std::vector<net::Net::Timing> timings = net.time(context, kRepeats);
  Optimizer optimizer(job.config.optimizer, net, engine.updater());
  const double update = update_ms(net, optimizer);

  double forward = 0, backward = 0;
  for (const auto& timing : timings) {
    forward += timing.forward_ms;
    backward += timing.backward_ms;
  }
  Json layers = Json::array();
  for (const auto& timing : timings)
    layers.push_back(
        {{"name", timing.name},
         {"type", timing.type},
         {"forward_ms", timing.forward_ms},
         {"backward_ms", timing.backward_ms},
         {"share", (timing.forward_ms + timing.backward_ms) / (forward + backward + update)},
         {"forward_gflops", gigaflops(timing.multiply_adds, timing.forward_ms)},
         // Two products of the same size: by the weights, and by the inputs.
         {"backward_gflops", gigaflops(2 * timing.multiply_adds, timing.backward_ms)}});
  return {{"name", job.config.name},     {"batch", job.config.shard_batch()},
          {"threads", engine.threads()}, {"layers", std::move(layers)},
          {"forward_ms", forward},       {"backward_ms", backward},
          {"update_ms", update},         {"arena_bytes", net.arena_bytes()}};
}

}  // namespace poseidon::trainer
