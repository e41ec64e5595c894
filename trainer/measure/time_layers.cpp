#include <algorithm>
#include <chrono>

#include "trainer/job/choices.h"
#include "trainer/measure/timing.h"
#include "trainer/step/engine.h"
#include "trainer/step/optimizer.h"

namespace poseidon::trainer {

namespace {

/// Repeats of the timed passes over the whole net. Each layer is also timed separately.
constexpr int kPassRepeats = 3;

/// Median milliseconds of one update of all parameters.
double update_ms(net::Net& net, Optimizer& optimizer, int repeats) {
  std::vector<double> times;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    // With a learning rate of 0 the update does the same work, but keeps the values.
    optimizer.begin({.step = repeat, .learning_rate = 0});
    for (size_t i = 0; i < net.parameters().size(); ++i) optimizer.update(i);
    net.device().record().wait();
    times.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
            .count());
  }
  std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
  return times[static_cast<size_t>(repeats / 2)];
}

/// Speed in 10^9 floating-point operations per second, two for each multiply-add.
double gigaflops(int64_t multiply_adds, double ms) {
  return ms > 0 ? 2 * static_cast<double>(multiply_adds) / ms / 1e6 : 0;
}

}  // namespace

Json time_layers(const Job& job, const net::Choices& choices, int repeats, Log& log) {
  // As in the job: with several workers, the net has two versions of its values.
  const int versions = job.config.cluster.workers > 1 ? 2 : 1;
  Engine engine(job, {.choices = choices, .versions = versions}, log);
  net::Net& net = engine.net();
  const std::vector<net::Timing> timings = time_on_random_values(job, net, repeats, log);
  const double pass = time_pass(job, net, kPassRepeats);
  Optimizer optimizer(job.config.optimizer, net, engine.updater());
  const double update = update_ms(net, optimizer, repeats);

  double forward = 0, backward = 0;
  for (const auto& timing : timings) {
    forward += timing.forward_ms;
    backward += timing.backward_ms;
  }
  const net::NetMemory memory = net.memory();
  Json layers = Json::array();
  for (const auto& timing : timings)
    layers.push_back(
        {{"name", timing.name},
         {"type", timing.type},
         {"forward_ms", timing.forward_ms},
         {"backward_ms", timing.backward_ms},
         {"implementations", implementations_json(timing.implementations)},
         {"share", (timing.forward_ms + timing.backward_ms) / (forward + backward + update)},
         {"forward_gflops", gigaflops(timing.multiply_adds, timing.forward_ms)},
         // Two products of the size of the forward product: gradients of weights and inputs.
         {"backward_gflops", gigaflops(2 * timing.multiply_adds, timing.backward_ms)}});
  return {{"name", job.config.name},     {"batch", job.config.shard_batch()},
          {"threads", engine.threads()}, {"devices", job.device().count()},
          {"layers", std::move(layers)}, {"forward_ms", forward},
          {"backward_ms", backward},     {"pass_ms", pass},
          {"update_ms", update},         {"arena_bytes", memory.activations + memory.scratch}};
}

}  // namespace poseidon::trainer
