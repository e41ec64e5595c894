// Layers that return sufficient factors instead of gradients, and the gradients rebuilt from the
// factors.

#include <doctest/doctest.h>

#include <cmath>
#include <mutex>

#include "core/cpu/cpu_device.h"
#include "core/error.h"
#include "core/philox.h"
#include "layers/cpu/cpu_layer.h"
#include "net/net.h"

namespace poseidon::net {
namespace {

constexpr int64_t kBatch = 3, kBatches = 2;
constexpr int kHidden = 0;  // index of the layer with factors
constexpr size_t kInputs = 70, kOutputs = 300;

/// A linear layer with more than one block of outputs, and a fused relu.
const char* const kNetwork = R"({"name": "n", "input": {"channels": 70}, "layers": [
  {"name": "hidden", "type": "linear", "outputs": 300, "weight_filler": {"type": "he"}},
  {"name": "relu", "type": "relu", "slope": 0.1},
  {"name": "top", "type": "linear", "outputs": 5, "bias": false},
  {"name": "loss", "type": "softmax_loss"}]})";

struct Bench {
  explicit Bench(std::vector<std::string> factored, int threads = 1, const char* json = kNetwork)
      : device(threads),
        network(parse_json(json, "n.json"), "n.json", kBatch),
        factory(layers::cpu::make_cpu_factory(device)),
        net(network, *factory, {.factored = std::move(factored), .factor_rows = kBatch * kBatches}),
        deltas(kBatch * kBatches * kOutputs),
        activations(kBatch * kBatches * kInputs) {
    net.values().initialize(11);
  }

  layers::FactorMemory factors(int64_t batch) {
    return {.deltas = deltas.data() + static_cast<size_t>(batch * kBatch) * kOutputs,
            .activations = activations.data() + static_cast<size_t>(batch * kBatch) * kInputs};
  }

  /// Forward and backward pass over random batch `number`.
  void run(int64_t number, const OnGradient& on_gradient = nullptr) {
    RandomStream random(5, RandomPurpose::kGeneration, static_cast<uint64_t>(number), 0);
    std::vector<float> input(static_cast<size_t>(net.input_shape().count()));
    for (float& value : input) value = random.next_uniform(-1, 1);
    net.set_input(input);
    const std::vector<int32_t> labels{1, 4, 2};
    const layers::StepContext step{.labels = labels, .loss_scale = 0.5f};
    net.forward(step);
    net.backward(step, on_gradient);
  }

  /// The gradients of all parameters of the layer, in canonical order.
  std::vector<float> gradients(int layer) {
    std::vector<float> all;
    for (const int index : net.parameters().of(layer)) {
      const Parameter& parameter = net.parameters()[static_cast<size_t>(index)];
      std::vector<float> values(static_cast<size_t>(parameter.spec.shape.count()));
      net.values().canonical_gradient(parameter, values);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

  /// Fills the factors of `hidden` from all batches.
  void run_all() {
    for (int64_t batch = 0; batch < kBatches; ++batch) {
      net.set_factor_memory(kHidden, factors(batch));
      run(batch);
    }
  }
  /// Gradients of `hidden`, rebuilt from these factors.
  std::vector<float> rebuilt(const layers::FactorMemory& all) {
    net.rebuild(kHidden, all);
    return gradients(kHidden);
  }

  cpu::CpuDevice device;
  Network network;
  std::unique_ptr<layers::LayerFactory> factory;
  Net net;
  std::vector<float> deltas, activations;
};

TEST_CASE("the gradient rebuilt from stacked factors is the sum over the batches") {
  Bench factored({"hidden"}), plain({});
  factored.run_all();
  const std::vector<float> rebuilt = factored.rebuilt(factored.factors(0));
  std::vector<double> sum(rebuilt.size());
  for (int64_t batch = 0; batch < kBatches; ++batch) {
    plain.run(batch);
    const std::vector<float> gradients = plain.gradients(kHidden);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(gradients[i]);
  }
  double worst = 0;
  for (size_t i = 0; i < sum.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(rebuilt[i]) - sum[i]));
  CHECK(worst < 1e-6);
}

TEST_CASE("a gradient rebuilt in pieces delivers each element once, equal to the one in memory") {
  Bench bench({"hidden"});
  bench.run_all();
  bench.net.rebuild(kHidden, bench.factors(0));
  const std::span<const int> parameters = bench.net.parameters().of(kHidden);
  std::vector<std::vector<float>> whole, pieces;
  for (const int index : parameters) {
    const std::span<float> gradient = bench.net.parameters()[static_cast<size_t>(index)].gradient;
    whole.emplace_back(gradient.begin(), gradient.end());
    pieces.emplace_back(gradient.size(), -1.0f);
  }
  size_t given = 0;
  std::mutex mutex;
  const layers::GradientSink sink = [&](int place, int64_t first, std::span<const float> piece) {
    const std::lock_guard lock(mutex);
    std::ranges::copy(piece, pieces[static_cast<size_t>(place)].begin() + first);
    given += piece.size();
  };
  bench.net.rebuild(kHidden, bench.factors(0), &sink);
  CHECK(pieces == whole);
  CHECK(given == whole[0].size() + whole[1].size());
}

TEST_CASE("a weight gradient is deltas^T x activations, a bias gradient is the sum of deltas") {
  Bench bench({"hidden"});
  bench.run_all();
  const std::vector<float> rebuilt = bench.rebuilt(bench.factors(0));
  REQUIRE(rebuilt.size() == kOutputs * kInputs + kOutputs);
  for (size_t output = 0; output < kOutputs; ++output) {
    double bias = 0;
    std::vector<double> row(kInputs);
    for (size_t sample = 0; sample < kBatch * kBatches; ++sample) {
      const auto delta = static_cast<double>(bench.deltas[sample * kOutputs + output]);
      bias += delta;
      for (size_t i = 0; i < kInputs; ++i)
        row[i] += delta * static_cast<double>(bench.activations[sample * kInputs + i]);
    }
    double worst = std::abs(static_cast<double>(rebuilt[kOutputs * kInputs + output]) - bias);
    for (size_t i = 0; i < kInputs; ++i)
      worst =
          std::max(worst, std::abs(static_cast<double>(rebuilt[output * kInputs + i]) - row[i]));
    CHECK(worst < 1e-6);
  }
}

TEST_CASE("a rebuilt gradient has equal bits for any thread count") {
  Bench one({"hidden"}, 1);
  one.run_all();
  const std::vector<float> expected = one.rebuilt(one.factors(0));
  for (const int threads : {2, 3})
    CHECK(Bench({"hidden"}, threads).rebuilt(one.factors(0)) == expected);
}

TEST_CASE("factors are announced before the backward pass reaches earlier layers") {
  const char* const deep = R"({"name": "n", "input": {"channels": 70}, "layers": [
    {"name": "hidden", "type": "linear", "outputs": 70},
    {"name": "top", "type": "linear", "outputs": 300},
    {"name": "loss", "type": "softmax_loss"}]})";
  Bench factored({"top"}, 1, deep), plain({}, 1, deep);
  constexpr int kTop = 1;
  factored.net.set_factor_memory(kTop, factored.factors(0));
  std::vector<int> announced;
  factored.run(0, [&](int layer) {
    announced.push_back(layer);
    CHECK(factored.deltas[0] != 0);
    CHECK((factored.gradients(kHidden) == std::vector<float>(70 * 71)) == (layer == kTop));
  });
  plain.run(0);
  CHECK(announced == std::vector<int>{kTop, kHidden});
  const std::vector<float> expected = plain.gradients(kHidden), got = factored.gradients(kHidden);
  for (size_t i = 0; i < expected.size(); ++i)
    REQUIRE(got[i] == doctest::Approx(static_cast<double>(expected[i])).epsilon(1e-5));
}

TEST_CASE("the search for a non-finite layer does not change the last step's factors") {
  Bench bench({"hidden"});
  bench.run_all();
  bench.net.set_factor_memory(kHidden, bench.factors(0));
  bench.run(0);
  const std::vector<float> deltas = bench.deltas, activations = bench.activations;
  bench.net.set_input(std::vector<float>(kBatch * kInputs, 0.25F));
  const std::vector<int32_t> labels{0, 0, 0};
  CHECK(bench.net.diagnosis().first_non_finite({.labels = labels, .loss_scale = 0.5F}).empty());
  CHECK(bench.deltas == deltas);
  CHECK(bench.activations == activations);
}

TEST_CASE("factor shapes are known for linear layers, also for those that send no factors") {
  Bench bench({"hidden"});
  const auto shape = bench.net.factor_shape(kHidden);
  REQUIRE(shape.has_value());
  CHECK(shape->deltas == 300);
  CHECK(shape->activations == 70);
  CHECK(shape->bias);
  CHECK_FALSE(bench.net.factor_shape(2).has_value());
  CHECK_FALSE(bench.network.nodes()[2].definition->factors()->bias);
  CHECK_FALSE(bench.network.nodes()[1].definition->factors().has_value());
}

TEST_CASE("layers that cannot send factors are refused") {
  CHECK_THROWS_WITH(
      Bench({"relu"}),
      "[relu 'relu'] cannot send factors: expected a linear layer or a convolution that "
      "shares no parameters");
  CHECK_THROWS_WITH(Bench({"hiden"}),
                    "no layer is named \"hiden\": expected a layer that can send factors");
  CHECK_THROWS_WITH(Bench({"top"}, 1, R"({"name": "n", "input": {"channels": 70}, "layers": [
      {"name": "hidden", "type": "linear", "outputs": 300},
      {"name": "top", "type": "linear", "outputs": 5, "learning_rate_multipliers": [0, 0]},
      {"name": "loss", "type": "softmax_loss"}]})"),
                    "[linear 'top'] cannot send factors: its learning rate is 0");
  Bench bench({});
  CHECK_THROWS_AS(Net(bench.network, *bench.factory, {.factored = {"hidden"}}), LogicError);
}

}  // namespace
}  // namespace poseidon::net
