// Measures the rate of each convolution of a network as a percentage of the machine's multiply-add
// peak.
//
//     bench_convolution NETWORK.json BATCH [THREADS] [REPEATS]
//
// Prints a table: GFLOP/s of forward and of backward, and their percentages of the peak, which the
// same run measures. Backward computes the gradients of input and weight; in the first layer, only
// the gradient of the weight. The table counts the multiply-adds of the direct method, also for
// Winograd. So the rate of Winograd may exceed 100 %.

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/peak.h"
#include "core/cpu/cpu_device.h"
#include "core/error.h"
#include "layers/cpu/cpu_layer.h"
#include "net/net.h"

namespace {

using namespace poseidon;

void fill(net::Net& net, const net::Network& network, std::vector<int32_t>& labels) {
  net.values().initialize(1);
  RandomStream random(1, RandomPurpose::kGeneration, 0, 0);
  std::vector<float> input(static_cast<size_t>(net.input_shape().count()));
  for (float& value : input) value = random.next_uniform(-1, 1);
  net.set_input(input);
  for (int32_t& label : labels)
    label = static_cast<int32_t>(random.next_below(static_cast<uint32_t>(network.classes())));
}

/// The number of gradients (of the weight and of the input) that a convolution computes; 0 if it
/// has no backward pass. The input of the first convolution needs no gradient.
int backward_passes(const net::Timing& timing, bool first) {
  return timing.backward_ms > 0 ? (first ? 1 : 2) : 0;
}

void run(const std::string& file, int64_t batch, int threads, int repeats) {
  cpu::CpuDevice device(threads);
  const double peak = bench::measure_peak_gflops(device.team());
  const auto factory = layers::cpu::make_cpu_factory(device);
  const net::Network network(std::filesystem::path(file), batch);
  net::Net net(network, *factory, {});
  std::vector<int32_t> labels(static_cast<size_t>(batch));
  fill(net, network, labels);
  layers::StepContext step;
  step.labels = labels;
  step.loss_scale = 1 / static_cast<float>(batch);
  net.diagnosis().time(step, 1);
  const std::vector<net::Timing> timings = net.diagnosis().time(step, repeats);
  const net::Choices choices = net.choices();
  std::printf("%s, batch %ld, %d threads; peak %.0f GFLOP/s\n\n", network.name().c_str(),
              static_cast<long>(batch), device.threads(), peak);
  std::printf(
      "| convolution | algorithms (forward, data, weight) | forward GFLOP/s | %% of peak | "
      "backward GFLOP/s | %% of peak |\n"
      "|---|---|---:|---:|---:|---:|\n");
  double flops = 0, milliseconds = 0;
  bool first = true;
  for (const net::Timing& timing : timings) {
    if (timing.type != "convolution") continue;
    const double forward = 2e-6 * static_cast<double>(timing.multiply_adds) / timing.forward_ms;
    const int passes = backward_passes(timing, first);
    const double backward =
        passes * 2e-6 * static_cast<double>(timing.multiply_adds) / timing.backward_ms;
    const layers::AlgorithmChoice& choice = choices.at(timing.name);
    std::printf("| %s | %s, %s, %s | %.0f | %.0f | %.0f | %.0f |\n", timing.name.c_str(),
                choice.forward.c_str(),
                choice.backward_data.empty() ? "-" : choice.backward_data.c_str(),
                choice.backward_weights.c_str(), forward, 100 * forward / peak, backward,
                100 * backward / peak);
    flops += 2e-6 * static_cast<double>(timing.multiply_adds) * (1 + passes);
    milliseconds += timing.forward_ms + timing.backward_ms;
    first = false;
  }
  std::printf("\nAll convolutions: %.0f GFLOP/s, %.0f %% of peak.\n", flops / milliseconds,
              100 * flops / milliseconds / peak);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: bench_convolution NETWORK.json BATCH [THREADS] [REPEATS]\n");
    return 2;
  }
  try {
    run(argv[1], std::atol(argv[2]), argc > 3 ? std::atoi(argv[3]) : 1,
        argc > 4 ? std::atoi(argv[4]) : 7);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_convolution: %s\n", error.what());
    return 1;
  }
  return 0;
}
