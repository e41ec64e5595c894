#include "net/net.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "core/cpu/cpu_device.h"
#include "core/error.h"
#include "layers/cpu/cpu_layer.h"
#include "tests/support/gradient_check.h"

namespace poseidon::net {
namespace {

/// A network with a device, a net, and random data.
struct Bench {
  explicit Bench(const std::string& json, int64_t batch = 3, Net::Options options = {},
                 DataType activations = DataType::kFp32)
      : device(1, activations),
        network(parse_json(json, "n.json"), "n.json", batch),
        factory(layers::cpu::make_cpu_factory(device)),
        net(network, *factory, options) {
    net.values().initialize(11);
    RandomStream random(5, RandomPurpose::kGeneration, 0, 0);
    input.resize(static_cast<size_t>(net.input_shape().count()));
    for (float& value : input) value = random.next_uniform(-1, 1);
    extras.resize(static_cast<size_t>(batch * count_of(net.batch_receiver().extras())));
    for (float& value : extras) value = random.next_uniform(-1, 1);
    net.set_input(input, extras);
    for (int64_t i = 0; i < batch; ++i)
      labels.push_back(static_cast<int32_t>(
          random.next_below(static_cast<uint32_t>(std::max<int64_t>(1, network.classes())))));
    step.labels = labels;
    step.loss_scale = 1 / static_cast<float>(batch);
  }

  double loss() {
    net.set_input(input, extras);  // set again: the previous pass may have reused the memory
    net.forward(step);
    double sum = 0;
    for (const auto& [scalar, values] : net.read_scalars())
      for (const float value : values)
        if (scalar.is_loss) sum += scalar.weight * static_cast<double>(value * step.loss_scale);
    return sum;
  }

  std::vector<float> gradient(const Parameter& parameter) {
    std::vector<float> out(static_cast<size_t>(parameter.spec.shape.count()));
    net.values().canonical_gradient(parameter, out);
    return out;
  }

  std::vector<float> input, extras;
  cpu::CpuDevice device;
  Network network;
  std::unique_ptr<layers::LayerFactory> factory;
  Net net;
  std::vector<int32_t> labels;
  layers::StepContext step;
};

/// A residual block with projection, shared inputs, concat and two losses: a test of fusion and of
/// the memory plan.
const char* const kBranches =
    R"({"name": "n", "input": {"channels": 3, "height": 9, "width": 9}, "layers": [
  {"name": "c1", "type": "convolution", "outputs": 8, "kernel": 3, "padding": 1, "weight_filler": {"type": "he"}},
  {"name": "b1", "type": "batch_norm"},
  {"name": "r1", "type": "relu", "slope": 0.1},
  {"name": "c2", "type": "convolution", "outputs": 8, "kernel": 3, "padding": 1, "bias": false, "weight_filler": {"type": "he"}},
  {"name": "b2", "type": "batch_norm"},
  {"name": "s", "type": "eltwise", "inputs": ["b2", "r1"]},
  {"name": "r2", "type": "relu", "slope": 0.2},
  {"name": "side", "type": "convolution", "input": "r1", "outputs": 20, "kernel": 1, "weight_filler": {"type": "he"}},
  {"name": "t", "type": "tanh"},
  {"name": "cat", "type": "concat", "inputs": ["r2", "t", "r1"]},
  {"name": "p", "type": "pooling", "method": "average", "kernel": 3, "stride": 2},
  {"name": "f", "type": "linear", "outputs": 6, "weight_filler": {"type": "xavier"}},
  {"name": "loss", "type": "softmax_loss"},
  {"name": "aux_f", "type": "linear", "input": "side", "outputs": 6, "weight_filler": {"type": "xavier"}},
  {"name": "aux", "type": "softmax_loss", "weight": 0.3}]})";

TEST_CASE("a network with bf16 activations computes nearly the results of fp32") {
  Bench fp32(kBranches, 8, {.keep = {"cat"}});
  Bench bf16(kBranches, 8, {.keep = {"cat"}}, DataType::kBf16);
  CHECK(bf16.loss() == doctest::Approx(fp32.loss()).epsilon(1e-2));
  test::check_close(bf16.net.output("cat"), fp32.net.output("cat"), 1e-2, "cat");
  CHECK(bf16.net.output("cat") != fp32.net.output("cat"));
  CHECK(bf16.net.memory().activations < 0.7 * static_cast<double>(fp32.net.memory().activations));
  fp32.net.backward(fp32.step);
  bf16.net.backward(bf16.step);
  for (size_t i = 0; i < fp32.net.parameters().size(); ++i) {
    const std::vector<float> exact = fp32.gradient(fp32.net.parameters()[i]);
    std::vector<float> got = bf16.gradient(bf16.net.parameters()[i]);
    double norm = 0, distance = 0;
    for (size_t k = 0; k < exact.size(); ++k) {
      norm += std::pow(static_cast<double>(exact[k]), 2);
      distance += std::pow(static_cast<double>(got[k] - exact[k]), 2);
    }
    CAPTURE(fp32.net.parameters()[i].name);
    // A batch norm follows, so the gradient of c1.bias is zero except for rounding.
    CHECK(std::sqrt(distance) <= 0.1 * std::sqrt(norm) + 1e-3);
  }
}

namespace {

void check_by_finite_differences(Bench& bench) {
  bench.loss();
  bench.net.backward(bench.step);
  for (const Parameter& parameter : bench.net.parameters()) {
    const std::vector<float> gradient = bench.gradient(parameter);
    const std::vector<float> start = bench.net.values().canonical(parameter);
    for (size_t i = 0; i < start.size(); i += start.size() / 5 + 1) {
      const float step = 5e-3f;
      std::vector<float> moved = start;
      moved[i] = start[i] + step;
      bench.net.values().set_canonical(parameter, moved);
      const double above = bench.loss();
      moved[i] = start[i] - step;
      bench.net.values().set_canonical(parameter, moved);
      const double below = bench.loss();
      bench.net.values().set_canonical(parameter, start);
      INFO(parameter.name, " ", i);
      CHECK(gradient[i] == doctest::Approx((above - below) / (2.0 * static_cast<double>(step)))
                               .epsilon(0.03)
                               .scale(0.05));
    }
  }
}

}  // namespace

TEST_CASE("the gradients of a network with branches agree with finite differences") {
  Bench bench(kBranches);
  check_by_finite_differences(bench);
}

namespace {

/// Two auxiliary inputs: one that a block reads and that is also a target, and one with an image's
/// shape.
const char* const kTwoInputs =
    R"({"name": "n", "input": {"channels": 3, "height": 7, "width": 7},
  "inputs": [{"name": "pose", "shape": [4]}, {"name": "map", "shape": [2, 5, 5]}],
  "blocks": {"bent": {"layers": [
    {"name": "f", "type": "linear", "outputs": 5, "weight_filler": {"type": "xavier"}},
    {"name": "g", "type": "linear", "input": "pose", "outputs": 5, "weight_filler": {"type": "xavier"}},
    {"name": "s", "type": "eltwise", "inputs": ["f", "g"]},
    {"name": "t", "type": "tanh"}]}},
  "layers": [
    {"name": "c", "type": "convolution", "outputs": 4, "kernel": 3, "weight_filler": {"type": "he"}},
    {"name": "m", "type": "convolution", "input": "map", "outputs": 4, "kernel": 3, "padding": 1, "weight_filler": {"type": "he"}},
    {"name": "s", "type": "eltwise", "inputs": ["c", "m"]},
    {"name": "b", "type": "block", "block": "bent"},
    {"name": "p", "type": "linear", "outputs": 4, "weight_filler": {"type": "xavier"}},
    {"name": "apart", "type": "euclidean_loss", "inputs": ["p", "pose"], "weight": 0.3},
    {"name": "loss", "type": "softmax_loss", "input": "b"}]})";

}  // namespace

TEST_CASE("the gradients of a network with auxiliary inputs agree with finite differences") {
  Bench bench(kTwoInputs);
  check_by_finite_differences(bench);
}

TEST_CASE("each value of an auxiliary input affects its own sample only") {
  Bench bench(kTwoInputs, 2, {.keep = {"b.t", "s"}});
  bench.loss();
  const std::vector<float> before = bench.net.output("s"), bent = bench.net.output("b.t");
  const size_t all = bench.extras.size(), poses = 2 * 4;
  REQUIRE(all == poses + 2 * 50);
  bench.extras[poses + 50] += 1;  // first value of the second sample's map
  bench.loss();
  const std::vector<float> after = bench.net.output("s");
  CHECK(std::equal(before.begin(), before.begin() + 100, after.begin()));
  CHECK(before != after);
  bench.extras[poses + 50] -= 1;
  bench.extras[3] += 1;  // last value of the first sample's pose
  bench.loss();
  const std::vector<float> other = bench.net.output("b.t");
  CHECK(bench.net.output("s") == before);
  CHECK_FALSE(std::equal(bent.begin(), bent.begin() + 5, other.begin()));
  CHECK(std::equal(bent.begin() + 5, bent.end(), other.begin() + 5));
}

namespace {

/// A layer that shares with an earlier layer, and a block that is used twice. "f2" is frozen by its
/// own settings, not by the layer that it shares with.
const char* const kShared =
    R"({"name": "n", "input": {"channels": 3, "height": 7, "width": 7},
  "blocks": {"tower": {"layers": [
    {"name": "c", "type": "convolution", "outputs": 4, "kernel": 3, "weight_filler": {"type": "he"}},
    {"name": "t", "type": "tanh"},
    {"name": "f", "type": "linear", "outputs": 5, "weight_filler": {"type": "xavier"}}]}},
  "layers": [
    {"name": "c0", "type": "convolution", "outputs": 3, "kernel": 3, "padding": 1, "weight_filler": {"type": "he"}},
    {"name": "c1", "type": "convolution", "outputs": 3, "kernel": 3, "padding": 1, "weight_filler": {"type": "he"}},
    {"name": "t1", "type": "tanh"},
    {"name": "c2", "type": "convolution", "outputs": 3, "kernel": 3, "padding": 1, "shares": "c1"},
    {"name": "a", "type": "block", "block": "tower"},
    {"name": "b", "type": "block", "block": "tower", "input": "t1", "shares": "a"},
    {"name": "x", "type": "eltwise", "inputs": ["a", "b"], "operation": "product"},
    {"name": "loss", "type": "softmax_loss"},
    {"name": "apart", "type": "euclidean_loss", "inputs": ["a", "b"], "weight": 0.2}]})";

/// Every layer type that can share its parameters, each with a second layer that shares. All have
/// parameters except batch norms. The two layers with a kink at zero read the input. It is fixed,
/// and their slopes are above zero, so finite differences never move a value across the kink.
const char* const kSharedByAll =
    R"({"name": "n", "input": {"channels": 3, "height": 4, "width": 5},
  "layers": [
    {"name": "p1", "type": "prelu"},
    {"name": "p2", "type": "prelu", "shares": "p1"},
    {"name": "d1", "type": "deconvolution", "outputs": 3, "kernel": 3, "padding": 1, "weight_filler": {"type": "he"}},
    {"name": "t1", "type": "tanh"},
    {"name": "d2", "type": "deconvolution", "outputs": 3, "kernel": 3, "padding": 1, "shares": "d1"},
    {"name": "s1", "type": "scale", "bias": true},
    {"name": "t2", "type": "tanh"},
    {"name": "s2", "type": "scale", "bias": true, "shares": "s1"},
    {"name": "b1", "type": "bias", "filler": {"type": "uniform", "minimum": -0.2, "maximum": 0.2}},
    {"name": "t3", "type": "tanh"},
    {"name": "b2", "type": "bias", "shares": "b1"},
    {"name": "c1", "type": "convolution", "outputs": 3, "kernel": 3, "padding": 1, "weight_filler": {"type": "he"}},
    {"name": "t4", "type": "tanh"},
    {"name": "c2", "type": "convolution", "outputs": 3, "kernel": 3, "padding": 1, "shares": "c1"},
    {"name": "f1", "type": "linear", "outputs": 6, "weight_filler": {"type": "xavier"}},
    {"name": "f2", "type": "linear", "outputs": 6, "weight_filler": {"type": "xavier"}},
    {"name": "t5", "type": "tanh"},
    {"name": "f3", "type": "linear", "outputs": 6, "shares": "f2"},
    {"name": "loss", "type": "softmax_loss"}]})";

}  // namespace

TEST_CASE("gradients of parameters shared by each layer type agree with finite differences") {
  Bench bench(kSharedByAll);
  std::set<std::string> shared;
  for (const Node& node : bench.network.nodes())
    if (node.shares >= 0) shared.insert(std::string(node.definition->type()));
  CHECK(shared ==
        std::set<std::string>{"bias", "convolution", "deconvolution", "linear", "prelu", "scale"});
  check_by_finite_differences(bench);
}

TEST_CASE("the gradients of shared parameters agree with finite differences") {
  Bench bench(kShared);
  std::vector<std::string> names;
  for (const Parameter& parameter : bench.net.parameters()) names.push_back(parameter.name);
  CHECK(names == std::vector<std::string>{"c0.weight", "c0.bias", "c1.weight", "c1.bias",
                                          "a.c.weight", "a.c.bias", "a.f.weight", "a.f.bias"});
  check_by_finite_differences(bench);
}

TEST_CASE("shared parameters are announced once, after the gradients of all their layers") {
  Bench bench(kShared);
  bench.loss();
  std::vector<std::string> gates, announced;
  std::vector<std::vector<float>> gradients;
  bench.net.forward(bench.step, [&](int layer) { gates.push_back(bench.net.layer_name(layer)); });
  bench.net.backward(bench.step, [&](int layer) {
    announced.push_back(bench.net.layer_name(layer));
    for (const int index : bench.net.parameters().of(layer))
      gradients.push_back(bench.gradient(bench.net.parameters()[static_cast<size_t>(index)]));
  });
  std::ranges::sort(gates);
  CHECK(gates == std::vector<std::string>{"a.c", "a.c", "a.f", "a.f", "c0", "c1", "c1"});
  std::ranges::sort(announced);
  CHECK(announced == std::vector<std::string>{"a.c", "a.f", "c0", "c1"});
  // Announced gradients equal the gradients at the end of the pass.
  for (const int layer : bench.net.parameters().summed_layers())
    for (const int index : bench.net.parameters().of(layer)) {
      const std::vector<float> last =
          bench.gradient(bench.net.parameters()[static_cast<size_t>(index)]);
      CHECK(std::ranges::find(gradients, last) != gradients.end());
    }
}

TEST_CASE("all layers that share parameters read the current version") {
  Bench bench(kShared, 4, {.versions = 2});
  const double before = bench.loss();
  for (const int layer : bench.net.parameters().summed_layers()) {
    for (const int index : bench.net.parameters().of(layer)) {
      const Parameter& parameter = bench.net.parameters()[static_cast<size_t>(index)];
      std::ranges::transform(parameter.value(), parameter.next().begin(),
                             [](float value) { return value / 2; });
    }
    bench.net.parameters().flip(layer);
  }
  Bench halved(kShared, 4);
  for (const Parameter& parameter : halved.net.parameters()) {
    std::vector<float> values = halved.net.values().canonical(parameter);
    for (float& value : values) value /= 2;
    halved.net.values().set_canonical(parameter, values);
  }
  CHECK(bench.loss() == halved.loss());
  for (const int layer : bench.net.parameters().summed_layers()) bench.net.parameters().flip(layer);
  CHECK(bench.loss() == before);
}

TEST_CASE("keeping an intermediate output prevents fusion and reuse, but changes no result") {
  Bench plain(kBranches);
  Bench watched(kBranches, 3, {.training = true, .choices = {}, .keep = {"r1", "r2", "t", "p"}});
  CHECK(plain.loss() == watched.loss());
  plain.net.backward(plain.step);
  watched.net.backward(watched.step);
  for (size_t i = 0; i < plain.net.parameters().size(); ++i)
    CHECK(plain.gradient(plain.net.parameters()[i]) ==
          watched.gradient(watched.net.parameters()[i]));
  CHECK(watched.net.output("p").size() == 3 * 36 * 16);
  CHECK_THROWS_AS(watched.net.output("c2"), LogicError);
}

TEST_CASE("memory reuse is correct if an eltwise layer reads one input several times") {
  const std::string head = R"({"name": "n", "input": {"channels": 4}, "layers": [
      {"name": "a", "type": "linear", "outputs": 3, "weight_filler": {"type": "xavier"}},
      {"name": "b", "type": "linear", "outputs": 3, "input": "input", "weight_filler": {"type": "xavier"}},
      {"name": "joined", )";
  const std::string tail = R"(},
      {"name": "last", "type": "relu", "slope": 0.5},
      {"name": "loss", "type": "softmax_loss"}]})";
  for (const char* operation : {"sum", "product", "maximum"})
    for (const char* inputs : {R"(["a", "a"])", R"(["a", "a", "a"])", R"(["a", "b", "a"])",
                               R"(["b", "a", "a"])", R"(["a", "b", "a", "b"])"}) {
      CAPTURE(inputs);
      CAPTURE(operation);
      const std::string json = head + R"("type": "eltwise", "operation": ")" + operation +
                               R"(", "inputs": )" + inputs + tail;
      // If all outputs are kept, no layer reuses the memory of another value.
      Bench reused(json), kept(json, 3, {.keep = {"a", "b", "joined", "last"}});
      CHECK(reused.loss() == kept.loss());
      reused.net.backward(reused.step);
      kept.net.backward(kept.step);
      for (size_t i = 0; i < kept.net.parameters().size(); ++i)
        CHECK(reused.gradient(reused.net.parameters()[i]) ==
              kept.gradient(kept.net.parameters()[i]));
    }
}

TEST_CASE("the sum of a, b and a is 2 a + b") {
  Bench bench(R"({"name": "n", "input": {"channels": 3}, "layers": [
      {"name": "a", "type": "tanh"},
      {"name": "b", "type": "sigmoid", "input": "input"},
      {"name": "sum", "type": "eltwise", "inputs": ["a", "b", "a"]},
      {"name": "loss", "type": "softmax_loss"}]})",
              3, {.training = false, .keep = {"sum"}});
  bench.net.forward(bench.step);
  const std::vector<float> sum = bench.net.output("sum");
  for (size_t i = 0; i < sum.size(); ++i) {
    const auto x = static_cast<double>(bench.input[i]);
    CHECK(sum[i] == doctest::Approx(2 * std::tanh(x) + 1 / (1 + std::exp(-x))));
  }
}

TEST_CASE("gates open in layer order, and gradients are announced in reverse order") {
  Bench bench(kBranches);
  std::vector<std::string> opened, announced;
  const auto name = [&](int layer) {
    return bench.network.nodes()[static_cast<size_t>(layer)].definition->name;
  };
  bench.net.forward(bench.step, [&](int layer) { opened.push_back(name(layer)); });
  bench.net.backward(bench.step, [&](int layer) { announced.push_back(name(layer)); });
  const std::vector<std::string> order{"c1", "b1", "c2", "b2", "side", "f", "aux_f"};
  CHECK(opened == order);
  CHECK(announced == std::vector<std::string>(order.rbegin(), order.rend()));
}

TEST_CASE("groups of several gradients: the callbacks run after each group") {
  Bench bench(kBranches);
  std::string order;
  bench.net.forward(bench.step);
  const auto on_gradient = [&](int layer) {
    order += bench.network.nodes()[static_cast<size_t>(layer)].definition->name + " ";
  };
  const auto between_layers = [&] { order += "| "; };
  bench.net.backward(bench.step, on_gradient, between_layers, 3);
  CHECK(order == "aux_f f side | b2 c2 b1 | c1 | ");
}

TEST_CASE("a forward-only net needs less memory and computes the same loss") {
  Bench training(kBranches), testing(kBranches, 3, {.training = false, .choices = {}, .keep = {}});
  training.step.phase = testing.step.phase = layers::Phase::kTest;
  CHECK(testing.net.memory().activations < training.net.memory().activations);
  CHECK(training.loss() == doctest::Approx(testing.loss()).epsilon(1e-5));
}

TEST_CASE("the memory need of a net is known without allocation") {
  for (const int versions : {1, 2}) {
    CAPTURE(versions);
    Bench bench(kBranches, 3, {.versions = versions});
    Net hollow(bench.network, *bench.factory, {.versions = versions, .allocates_memory = false});
    const NetMemory would = hollow.memory(), does = bench.net.memory();
    CHECK(would.activations == does.activations);
    CHECK(would.scratch == does.scratch);
    CHECK(would.parameters == does.parameters);
    CHECK((would.second_version > 0) == (versions == 2));
    size_t parameters = 0;
    REQUIRE(hollow.parameters().size() == bench.net.parameters().size());
    for (size_t i = 0; i < hollow.parameters().size(); ++i) {
      const Parameter &one = hollow.parameters()[i], &other = bench.net.parameters()[i];
      CHECK(one.name == other.name);
      CHECK(one.learned == other.learned);
      CHECK(one.value().empty());
      CHECK(hollow.parameters().packed_count(one) == other.value().size());
      CHECK(hollow.values().canonical_is_packed(one) ==
            bench.net.values().canonical_is_packed(other));
      parameters += other.value().size_bytes();
    }
    // Each tensor starts at a cache line. Each kind starts some lines after the previous one.
    CHECK(would.parameters >= parameters);
    CHECK(would.parameters <= parameters + 64 * hollow.parameters().size());
    CHECK(would.gradients >= would.parameters);
    CHECK(would.gradients <= would.parameters + 4096);
  }
}

TEST_CASE("the memory of activations is proportional to the batch") {
  const Bench one(kBranches, 8), two(kBranches, 16);
  const auto bytes = [](const Bench& bench) {
    return static_cast<double>(bench.net.memory().activations);
  };
  CHECK(bytes(two) == doctest::Approx(2 * bytes(one)).epsilon(0.02));
}

TEST_CASE("flip swaps the two versions of a layer, and the passes read the current one") {
  Bench one(kBranches);
  Bench two(kBranches, 3, {.versions = 2});
  const double before = one.loss();
  CHECK(two.loss() == before);
  const auto index = static_cast<size_t>(one.net.parameters().of(0)[0]);
  for (float& value : one.net.parameters()[index].value()) value *= 2;
  Parameter& parameter = two.net.parameters()[index];
  for (size_t i = 0; i < parameter.value().size(); ++i)
    parameter.next()[i] = 2 * parameter.value()[i];
  for (const int other : two.net.parameters().of(0).subspan(1))
    std::ranges::copy(two.net.parameters()[static_cast<size_t>(other)].value(),
                      two.net.parameters()[static_cast<size_t>(other)].next().begin());
  CHECK(two.loss() == before);
  two.net.parameters().flip(0);
  const double after = one.loss();
  CHECK(after != before);
  CHECK(two.loss() == after);
  two.net.parameters().flip(0);
  CHECK(two.loss() == before);
}

TEST_CASE("statistics have two versions, and flip has no effect on a single version") {
  Bench two(kBranches, 3, {.versions = 2});
  Statistic& statistic = two.net.parameters().statistics()[0];
  statistic.next()[0] = 7;
  two.net.parameters().flip(statistic.layer);
  CHECK(statistic.value()[0] == 7);
  Bench one(kBranches);
  one.net.parameters().flip(0);
  CHECK(one.net.parameters()[0].value().data() == one.net.parameters()[0].next().data());
  CHECK(one.loss() == Bench(kBranches).loss());
}

TEST_CASE("tensors that no update changes have one version and are not announced") {
  const char* const json = R"({"name": "n", "input": {"channels": 4}, "layers": [
      {"name": "frozen", "type": "linear", "outputs": 5, "learning_rate_multipliers": [0, 0]},
      {"name": "half", "type": "linear", "outputs": 4, "learning_rate_multipliers": [0, 1]},
      {"name": "f", "type": "linear", "outputs": 3},
      {"name": "dead", "type": "batch_norm", "input": "half"},
      {"name": "loss", "type": "softmax_loss", "input": "f"}]})";
  Bench bench(json, 3, {.versions = 2});
  std::vector<int> announced;
  bench.net.forward(bench.step);
  bench.net.backward(bench.step, [&](int layer) { announced.push_back(layer); });
  CHECK(announced == std::vector<int>{2, 1});
  CHECK(std::ranges::equal(bench.net.parameters().summed_layers(), std::vector<int>{1, 2, 3}));
  CHECK_FALSE(bench.net.parameters().announces(3));
  for (const Parameter& parameter : bench.net.parameters()) {
    CAPTURE(parameter.name);
    const bool learned = parameter.layer == 2 || parameter.name == "half.bias";
    CHECK(parameter.learned == learned);
    CHECK((parameter.next().data() != parameter.value().data()) == learned);
  }
  bench.loss();
  const std::vector<float> scale = bench.net.values().canonical(bench.net.parameters()[6]);
  bench.net.parameters().flip(3);
  CHECK(bench.net.values().canonical(bench.net.parameters()[6]) == scale);
}

TEST_CASE("gradients survive the conversion from canonical order and back") {
  Bench bench(kBranches);
  for (const Parameter& parameter : bench.net.parameters()) {
    std::vector<float> values(static_cast<size_t>(parameter.spec.shape.count())), back = values;
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) - 3.5f;
    bench.net.values().gradient_from_canonical(parameter, values);
    bench.net.values().canonical_gradient(parameter, back);
    CHECK(back == values);
    const bool same = std::ranges::equal(parameter.gradient, values);
    CHECK(bench.net.values().canonical_is_packed(parameter) == same);
  }
}

TEST_CASE("parameters survive packing and unpacking") {
  Bench bench(kBranches);
  for (const Parameter& parameter : bench.net.parameters()) {
    std::vector<float> values(static_cast<size_t>(parameter.spec.shape.count()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) + 0.5f;
    bench.net.values().set_canonical(parameter, values);
    CHECK(bench.net.values().canonical(parameter) == values);
  }
}

TEST_CASE("initial parameters depend only on the seed") {
  Bench a(kBranches), b(kBranches, 5);
  for (size_t i = 0; i < a.net.parameters().size(); ++i)
    CHECK(a.net.values().canonical(a.net.parameters()[i]) ==
          b.net.values().canonical(b.net.parameters()[i]));
  b.net.values().initialize(12);
  CHECK(a.net.values().canonical(a.net.parameters()[0]) !=
        b.net.values().canonical(b.net.parameters()[0]));
}

TEST_CASE("the diagnosis finds the first layer with a non-finite value") {
  Bench bench(kBranches);
  CHECK(bench.net.diagnosis().first_non_finite(bench.step).empty());
  std::vector<float> values = bench.net.values().canonical(bench.net.parameters()[4]);
  values[3] = std::numeric_limits<float>::quiet_NaN();
  bench.net.values().set_canonical(bench.net.parameters()[4], values);
  CHECK(bench.net.diagnosis().first_non_finite(bench.step) == "c2");
}

TEST_CASE("the diagnosis names the implementation of each pass") {
  const std::string json = R"({"name": "n", "input": {"channels": 3, "height": 9, "width": 9},
      "layers": [{"name": "c", "type": "convolution", "outputs": 4, "kernel": [3, 1]},
                 {"name": "p", "type": "pooling", "kernel": 3},
                 {"name": "b", "type": "batch_norm"},
                 {"name": "f", "type": "linear", "outputs": 3},
                 {"name": "loss", "type": "softmax_loss"}]})";
  const auto passes_of = [](Net& net) {
    std::map<std::string, layers::Implementations> passes;
    for (const OperationInfo& operation : net.diagnosis().operation_info())
      passes[operation.name] = operation.implementations;
    return passes;
  };
  Bench training(json), testing(json, 3, {.training = false});
  std::map<std::string, layers::Implementations> passes = passes_of(training.net);
  const auto own = [](const char* data, const char* weights) {
    return layers::Implementations{"Poseidon", data, weights};
  };
  CHECK(passes["p"] == own("Poseidon", ""));
  CHECK(passes["b"] == own("Poseidon", "Poseidon"));
  CHECK(passes["loss"] == own("Poseidon", ""));
  for (const char* layer : {"c", "f"}) {
    CAPTURE(std::string(layer));
    CHECK_FALSE(passes[layer].forward.empty());
    CHECK_FALSE(passes[layer].backward_weights.empty());
  }
  CHECK(passes["c"].backward_data.empty());
  CHECK_FALSE(passes["f"].backward_data.empty());

  passes = passes_of(testing.net);
  CHECK(passes["p"] == own("", ""));
  CHECK(passes["f"].backward_weights.empty());
}

TEST_CASE("a branch that reaches no loss is computed but receives no gradient") {
  Bench bench(R"({"name": "n", "input": {"channels": 4}, "layers": [
      {"name": "f", "type": "linear", "outputs": 3, "weight_filler": {"type": "xavier"}},
      {"name": "extra", "type": "linear", "outputs": 2, "input": "input"},
      {"name": "probabilities", "type": "softmax", "input": "f"},
      {"name": "loss", "type": "softmax_loss", "input": "f"}]})");
  std::vector<int> announced;
  bench.net.forward(bench.step);
  bench.net.backward(bench.step, [&](int layer) { announced.push_back(layer); });
  CHECK(announced == std::vector<int>{0});
}

}  // namespace
}  // namespace poseidon::net
