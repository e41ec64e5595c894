// Whole networks compared with PyTorch: same weights, same batches, same losses.
// tests/reference/train_pytorch.py wrote the losses. It documents how weights and batches are
// generated.

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>

#include "core/cpu/cpu_device.h"
#include "core/json.h"
#include "core/philox.h"
#include "layers/cpu/cpu_layer.h"
#include "layers/cpu/update.h"
#include "net/net.h"
#include "tests/support/folders.h"
#include "trainer/job/optimizer_config.h"
#include "trainer/step/optimizer.h"

using namespace poseidon;

namespace {

struct Training {
  std::string network;
  int64_t batch = 0, size = 0;  ///< size: height and width of the images
  double gain = 1;
  float signal = 1;
  double learning_rate = 0, decay = 0;
};

RandomStream random_stream(uint64_t stream, uint64_t index) {
  return {5, RandomPurpose::kGeneration, stream, index};
}

net::Network load(const Training& training) {
  const std::string file =
      test::source_folder() + "/configs/networks/" + training.network + ".json";
  Json json = read_json(file);
  json["input"]["height"] = json["input"]["width"] = training.size;
  return net::Network(json, file, training.batch);
}

std::vector<double> read_curve(const std::string& network) {
  std::ifstream in(test::source_folder() + "/tests/reference/curves/" + network + ".txt");
  std::vector<double> losses;
  for (double loss; in >> loss;) losses.push_back(loss);
  REQUIRE(!losses.empty());
  return losses;
}

void fill_parameters(net::Net& net, double gain) {
  uint64_t stream = 100;
  for (const net::Parameter& parameter : net.parameters()) {
    RandomStream random = random_stream(stream++, 0);
    float low = -0.1F, high = 0.1F;
    if (parameter.spec.name == "scale") {
      low = 0.5F;
      high = 1.5F;
    } else if (parameter.spec.name == "weight") {
      high = static_cast<float>(gain * std::sqrt(3.0 / static_cast<double>(parameter.spec.fan_in)));
      low = -high;
    }
    std::vector<float> values(static_cast<size_t>(parameter.spec.shape.count()));
    for (float& value : values) value = random.next_uniform(low, high);
    net.values().set_canonical(parameter, values);
  }
}

/// Fills the net's input with the batch of a step, and returns the labels.
std::vector<int32_t> fill_batch(net::Net& net, int64_t step, int64_t classes, float signal) {
  const int64_t batch = net.input_shape().samples(), count = net.input_shape().sample_count();
  std::vector<float> input;
  std::vector<int32_t> labels;
  for (int64_t n = 0; n < batch; ++n) {
    const auto sample = static_cast<uint64_t>(step * batch + n);
    const uint32_t label = random_stream(1, sample).next_word() % static_cast<uint32_t>(classes);
    RandomStream noise = random_stream(2, sample), pattern = random_stream(3, label);
    for (int64_t i = 0; i < count; ++i)
      input.push_back(noise.next_uniform(-1, 1) + pattern.next_uniform(-signal, signal));
    labels.push_back(static_cast<int32_t>(label));
  }
  net.set_input(input);
  return labels;
}

double mean_loss(const net::Net& net) {
  const std::vector<float> losses = net.read_scalars().at(0).values;
  double sum = 0;
  for (const float loss : losses) sum += static_cast<double>(loss);
  return sum / static_cast<double>(losses.size());
}

std::vector<double> train(const Training& training, size_t steps) {
  cpu::CpuDevice device(0);
  const auto factory = layers::cpu::make_cpu_factory(device);
  const auto updater = layers::cpu::make_cpu_updater(device.team());
  const net::Network network = load(training);
  net::Net net(network, *factory, {.training = true, .choices = {}, .keep = {}});
  net.values().initialize(1);
  fill_parameters(net, training.gain);
  trainer::OptimizerConfig config;
  config.weight_decay = training.decay;
  trainer::Optimizer optimizer(config, net, *updater);

  std::vector<double> losses;
  for (size_t step = 0; step < steps; ++step) {
    const auto number = static_cast<int64_t>(step);
    const auto labels = fill_batch(net, number, network.classes(), training.signal);
    const layers::StepParameters numbers{.step = number};
    layers::StepContext context;
    context.numbers = &numbers;
    context.labels = labels;
    context.loss_scale = 1 / static_cast<float>(training.batch);
    net.forward(context);
    losses.push_back(mean_loss(net));
    net.backward(context);
    optimizer.begin({.step = number, .learning_rate = training.learning_rate});
    for (size_t i = 0; i < net.parameters().size(); ++i) optimizer.update(i);
  }
  return losses;
}

/// The largest relative difference of the first `count` losses.
double worst(const std::vector<double>& got, const std::vector<double>& expected, size_t count) {
  double largest = 0;
  for (size_t i = 0; i < count; ++i)
    largest = std::max(largest, std::abs(got[i] - expected[i]) / expected[i]);
  return largest;
}

}  // namespace

TEST_CASE("lenet has PyTorch's losses for 100 steps") {
  const auto expected = read_curve("lenet");
  const auto got = train({.network = "lenet",
                          .batch = 64,
                          .size = 28,
                          .gain = 1,
                          .signal = 0.25F,
                          .learning_rate = 0.0005,
                          .decay = 0.0005},
                         expected.size());
  CHECK(expected.size() == 100);
  CHECK(worst(got, expected, 100) < 1e-4);
}

TEST_CASE("cifar10_quick has PyTorch's losses for 100 steps") {
  const auto expected = read_curve("cifar10_quick");
  const auto got = train({.network = "cifar10_quick",
                          .batch = 100,
                          .size = 32,
                          .gain = 1,
                          .signal = 1,
                          .learning_rate = 0.001,
                          .decay = 0.004},
                         expected.size());
  CHECK(expected.size() == 100);
  CHECK(worst(got, expected, 100) < 1e-4);
}

TEST_CASE("resnet18 has PyTorch's losses for 20 steps") {
  const auto expected = read_curve("resnet18");
  const auto got = train({.network = "resnet18",
                          .batch = 16,
                          .size = 64,
                          .gain = std::sqrt(2.0),
                          .signal = 1,
                          .learning_rate = 0.0002,
                          .decay = 0.0001},
                         expected.size());
  CHECK(expected.size() == 20);
  CHECK(worst(got, expected, 5) < 1e-4);
  CHECK(worst(got, expected, 20) < 1e-2);
}
