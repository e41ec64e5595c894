#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "core/cpu/cpu_device.h"
#include "core/error.h"
#include "layers/cpu/cpu_layer.h"
#include "net/net.h"
#include "tests/support/error_of.h"

namespace poseidon::net {
namespace {

using Floats = std::vector<float>;
using Names = std::vector<std::string>;
using layers::Phase;

/// A network with these layers and an input of 3 x 8 x 8.
std::string of_layers(const std::string& layers, const std::string& more = "") {
  return R"({"name": "n", "input": {"channels": 3, "height": 8, "width": 8}, )" + more +
         R"("layers": [)" + layers + "]}";
}

Network phased(const std::string& layers, const std::string& more = "",
               LabelForm form = LabelForm::kPlain) {
  return Network(parse_json(of_layers(layers, more), "n.json"), "n.json", 4, form);
}

std::string refusal(const std::string& layers, const std::string& more = "") {
  return error_of<ConfigError>([&] { phased(layers, more); });
}

Names names_of(const Network& network) {
  Names names;
  for (const Node& node : network.nodes()) names.push_back(node.definition->name);
  return names;
}

/// The name of the first input of a layer.
std::string first_input(const Network& network, const std::string& layer) {
  const Node& node = network.nodes()[static_cast<size_t>(network.index_of(layer).value())];
  const int input = node.inputs[0];
  return input < 0 ? "input" : network.nodes()[static_cast<size_t>(input)].definition->name;
}

/// An auxiliary head and noise exist only in training. An accuracy and an untrained layer exist
/// only in tests.
constexpr const char* kPhased = R"(
  {"name": "c", "type": "convolution", "outputs": 6, "kernel": 3, "weight_filler": {"type": "he"}},
  {"name": "b", "type": "batch_norm"},
  {"name": "r", "type": "relu"},
  {"name": "aux_f", "phase": "train", "type": "linear", "outputs": 5,
   "weight_filler": {"type": "xavier"}},
  {"name": "aux", "phase": "train", "type": "softmax_loss", "weight": 0.3},
  {"name": "cube", "phase": "train", "input": "r", "type": "power", "power": 2, "shift": 0.5},
  {"name": "f", "type": "linear", "outputs": 5, "weight_filler": {"type": "xavier"}},
  {"name": "double", "phase": "test", "type": "power", "scale": 2},
  {"name": "accuracy", "phase": "test", "type": "accuracy", "input": "f"},
  {"name": "loss", "input": "f", "type": "softmax_loss"})";

/// The training layers of kPhased as a network of both phases.
constexpr const char* kTrainedAlone = R"(
  {"name": "c", "type": "convolution", "outputs": 6, "kernel": 3, "weight_filler": {"type": "he"}},
  {"name": "b", "type": "batch_norm"},
  {"name": "r", "type": "relu"},
  {"name": "aux_f", "type": "linear", "outputs": 5, "weight_filler": {"type": "xavier"}},
  {"name": "aux", "type": "softmax_loss", "weight": 0.3},
  {"name": "cube", "input": "r", "type": "power", "power": 2, "shift": 0.5},
  {"name": "f", "type": "linear", "outputs": 5, "weight_filler": {"type": "xavier"}},
  {"name": "loss", "input": "f", "type": "softmax_loss"})";

constexpr const char* kTestedAlone = R"(
  {"name": "c", "type": "convolution", "outputs": 6, "kernel": 3, "weight_filler": {"type": "he"}},
  {"name": "b", "type": "batch_norm"},
  {"name": "r", "type": "relu"},
  {"name": "f", "type": "linear", "outputs": 5, "weight_filler": {"type": "xavier"}},
  {"name": "double", "type": "power", "scale": 2},
  {"name": "accuracy", "type": "accuracy", "input": "f"},
  {"name": "loss", "input": "f", "type": "softmax_loss"})";

/// A net with these layers, random values and random batches.
struct Made {
  explicit Made(const std::string& layers, const Net::Options& options = {},
                LabelForm form = LabelForm::kPlain)
      : network(phased(layers, "", form)),
        factory(layers::cpu::make_cpu_factory(device)),
        net(network, *factory, options) {
    net.values().initialize(11);
    labels.resize(static_cast<size_t>(network.batch()));
    set_batch(1);
  }

  /// Sets a random batch. Equal numbers give equal batches.
  void set_batch(uint64_t number) {
    RandomStream random(number, RandomPurpose::kGeneration, 0, 0);
    Floats input(static_cast<size_t>(network.input().count()));
    for (float& value : input) value = random.next_uniform(-1, 1);
    for (int32_t& label : labels) label = static_cast<int32_t>(random.next_below(5));
    net.set_input(input);
  }

  layers::StepContext step(Phase phase) const {
    return {.phase = phase, .labels = labels, .loss_scale = 0.25F};
  }

  /// The weighted loss of a forward pass.
  double loss(Phase phase) {
    net.forward(step(phase));
    double sum = 0;
    for (const auto& [scalar, values] : net.read_scalars())
      for (const float value : values)
        if (scalar.is_loss) sum += scalar.weight * static_cast<double>(value);
    return sum * 0.25;
  }

  Floats gradient(const Parameter& parameter) {
    Floats out(static_cast<size_t>(parameter.spec.shape.count()));
    net.values().canonical_gradient(parameter, out);
    return out;
  }

  const Parameter& parameter(const std::string& name) {
    return *std::ranges::find(net.parameters(), name, &Parameter::name);
  }

  /// A training step: gradient descent without momentum, and an update of the statistics.
  void train() {
    net.forward(step(Phase::kTrain));
    net.backward(step(Phase::kTrain));
    for (const Parameter& each : net.parameters()) {
      Floats value = net.values().canonical(each);
      const Floats slope = gradient(each);
      for (size_t i = 0; i < value.size(); ++i) value[i] -= 0.1F * slope[i];
      net.values().set_canonical(each, value);
    }
    for (Statistic& each : net.parameters().statistics())
      for (size_t i = 0; i < each.value().size(); ++i)
        each.value()[i] += 0.1F * (each.contribution[i] - each.value()[i]);
  }

  /// Copies the values of all tensors of this net from the tensors with the same names in another
  /// net.
  void take_values(Made& other) {
    for (const Parameter& each : net.parameters())
      net.values().set_canonical(each, other.net.values().canonical(other.parameter(each.name)));
    for (Statistic& each : net.parameters().statistics()) {
      const auto from =
          std::ranges::find(other.net.parameters().statistics(), each.name, &Statistic::name);
      std::ranges::copy(from->value(), each.value().begin());
    }
  }

  cpu::CpuDevice device{1};
  Network network;
  std::unique_ptr<layers::LayerFactory> factory;
  Net net;
  std::vector<int32_t> labels;
};

Names scalars_of(const Net& net) {
  Names names;
  for (const auto& [scalar, values] : net.read_scalars()) names.push_back(scalar.layer);
  return names;
}

}  // namespace

// ---- networks

TEST_CASE("each phase has its own layers, and a layer reads the previous layer of its phase") {
  const Network network = phased(kPhased);
  CHECK(names_of(network) == Names{"c", "b", "r", "aux_f", "aux", "cube", "f", "loss"});
  CHECK(names_of(network.in_test()) == Names{"c", "b", "r", "f", "double", "accuracy", "loss"});
  CHECK(first_input(network, "f") == "cube");
  CHECK(first_input(network.in_test(), "f") == "r");
  CHECK(&network.in_test().in_test() == &network.in_test());
  CHECK(network.in_test().batch() == 4);
  // Only training layers have parameters. Each phase has as many as a separate network of that
  // phase.
  CHECK(network.parameter_count() == phased(kTrainedAlone).parameter_count());
  CHECK(network.in_test().parameter_count() == phased(kTestedAlone).parameter_count());
}

TEST_CASE("a network without phase-specific layers is its own test network") {
  const Network plain = phased(kTrainedAlone);
  CHECK(&plain.in_test() == &plain);
  const Network said = phased(R"({"name": "f", "phase": "both", "type": "linear", "outputs": 5},
                                 {"name": "loss", "type": "softmax_loss"})");
  CHECK(&said.in_test() == &said);
}

TEST_CASE("each phase may use a name once, and equal names share their parameters") {
  const Network network = phased(R"(
    {"name": "a", "type": "tanh"},
    {"name": "p", "phase": "train", "type": "pooling", "kernel": 2, "stride": 2},
    {"name": "p", "phase": "test", "type": "pooling", "method": "average", "kernel": 2, "stride": 2},
    {"name": "f", "phase": "train", "type": "linear", "outputs": 5},
    {"name": "f", "phase": "test", "input": "p", "type": "linear", "outputs": 5},
    {"name": "loss", "type": "softmax_loss"})");
  CHECK(names_of(network) == names_of(network.in_test()));
  CHECK(&network != &network.in_test());
  CHECK(first_input(network.in_test(), "f") == "p");
  CHECK(refusal(
            R"({"name": "a", "type": "tanh"}, {"name": "a", "phase": "train", "type": "tanh"})") ==
        "n.json: /layers/1/name: the name \"a\" is used twice");
  CHECK(
      refusal(R"({"name": "a", "type": "tanh"}, {"name": "a", "phase": "test", "type": "tanh"})") ==
      "n.json: /layers/1/name: the name \"a\" is used twice in phase \"test\"");
}

TEST_CASE("a layer whose input is missing in one of its phases is refused") {
  CHECK(
      refusal(R"({"name": "a", "type": "tanh"}, {"name": "d", "phase": "train", "type": "dropout"},
                   {"name": "b", "input": "d", "type": "tanh"})") ==
      "n.json: /layers/2/input: \"d\" is not in phase \"test\", but this layer is");
  CHECK(refusal(R"({"name": "a", "type": "tanh"}, {"name": "d", "phase": "test", "type": "tanh"},
                   {"name": "s", "inputs": ["a", "d"], "type": "eltwise"})") ==
        "n.json: /layers/2/inputs: \"d\" is not in phase \"train\", but this layer is");
  CHECK(refusal(R"({"name": "a", "phase": "train", "type": "linear", "outputs": 3},
                   {"name": "b", "input": "input", "type": "linear", "outputs": 3, "shares": "a"})") ==
        "n.json: /layers/1/shares: \"a\" is not in phase \"test\", but this layer is");
  CHECK(refusal(R"({"name": "a", "phase": "tset", "type": "tanh"})") ==
        "n.json: /layers/0/phase: expected one of \"train\", \"test\", \"both\", got \"tset\"; did "
        "you mean \"test\"?");
  CHECK(refusal(R"({"name": "a", "phase": "train", "type": "tanh"})") ==
        "n.json: /layers: a network needs at least one layer in phase \"test\"");
  CHECK(refusal(R"({"name": "a", "phase": "test", "type": "tanh"})") ==
        "n.json: /layers: a network needs at least one layer");
}

TEST_CASE("errors in test-only layers are reported with their JSON path") {
  CHECK(refusal(R"({"name": "a", "type": "tanh"},
                   {"name": "p", "phase": "test", "type": "power", "power": "x"})") ==
        "n.json: /layers/1/power: expected a number, got \"x\"");
  CHECK(refusal(R"({"name": "a", "type": "tanh"},
                   {"name": "p", "phase": "test", "type": "pooling", "kernel": 9})")
            .starts_with("n.json: /layers/1: [pooling 'p'] "));
}

TEST_CASE("test layers with untrained or mismatched parameters are refused") {
  CHECK(
      refusal(R"({"name": "a", "type": "tanh"},
                   {"name": "f", "phase": "test", "type": "linear", "outputs": 5})") ==
      "n.json: /layers/1: \"f\" is only in phase \"test\", so no layer trains its tensors (weight "
      "5x192, bias 5): expected \"shares\", or a layer with the same name in phase \"train\"");
  CHECK(
      refusal(R"({"name": "f", "phase": "train", "type": "linear", "outputs": 5},
                   {"name": "f", "phase": "test", "input": "input", "type": "linear", "outputs": 6})") ==
      "n.json: /layers/1: \"f\" uses the parameters of the layer with the same name in phase "
      "\"train\": expected linear with weight 5x192, bias 5, got linear with weight 6x192, bias 6");
  CHECK(
      refusal(R"({"name": "p", "phase": "train", "type": "pooling", "kernel": 2, "stride": 2},
                   {"name": "f", "type": "linear", "outputs": 5})") ==
      "n.json: /layers/1: \"f\" uses the parameters of the layer with the same name in phase "
      "\"train\": expected linear with weight 5x48, bias 5, got linear with weight 5x192, bias 5");
  const Network shared = phased(R"({"name": "f", "type": "linear", "outputs": 5},
    {"name": "g", "phase": "test", "input": "input", "type": "linear", "outputs": 5, "shares": "f"},
    {"name": "loss", "input": "f", "type": "softmax_loss"})");
  CHECK(shared.in_test().nodes()[1].shares == 0);
  CHECK_FALSE(shared.nodes()[0].is_shared);
}

TEST_CASE("a block may be used in one phase, and may contain layers of one phase") {
  const char* const blocks = R"("blocks": {
    "head": {"parameters": {"phase": "both"}, "layers": [
      {"name": "d", "phase": "$phase", "type": "dropout"},
      {"name": "f", "type": "linear", "outputs": 5}]},
    "bad": {"layers": [{"name": "t", "type": "tanh"}, {"name": "u", "phase": "test", "type": "tanh"}]}},)";
  const Network network = phased(R"(
    {"name": "a", "type": "tanh"},
    {"name": "aux", "phase": "train", "type": "block", "block": "head"},
    {"name": "aux_loss", "phase": "train", "type": "softmax_loss"},
    {"name": "main", "input": "a", "type": "block", "block": "head", "with": {"phase": "train"}},
    {"name": "loss", "type": "softmax_loss"})",
                                 blocks);
  CHECK(names_of(network) == Names{"a", "aux.d", "aux.f", "aux_loss", "main.d", "main.f", "loss"});
  CHECK(names_of(network.in_test()) == Names{"a", "main.f", "loss"});
  CHECK(first_input(network.in_test(), "main.f") == "a");
  CHECK(first_input(network.in_test(), "loss") == "main.f");
  CHECK(refusal(R"({"name": "a", "type": "tanh"},
                   {"name": "x", "phase": "train", "type": "block", "block": "bad"})",
                blocks) ==
        "n.json: /blocks/bad/layers/1/phase: expected \"train\" (the phase of the layer that uses "
        "the block) or no \"phase\", got \"test\"");
}

TEST_CASE("the summary marks layers that exist in only one phase") {
  const Json layers = phased(kPhased).summary()["layers"];
  CHECK(layers.size() == 10);
  CHECK_FALSE(layers[0].contains("phase"));
  CHECK(layers[3]["phase"] == "train");
  CHECK(layers[8]["name"] == "double");
  CHECK(layers[8]["phase"] == "test");
}

// ---- nets

TEST_CASE("tests between steps do not change the bits of training") {
  Made with(kPhased), without(kTrainedAlone);
  for (uint64_t round = 0; round < 3; ++round) {
    for (Made* each : {&with, &without}) {
      each->set_batch(2 * round);
      each->train();
    }
    with.set_batch(2 * round + 1);
    with.loss(Phase::kTest);
  }
  for (const Parameter& each : without.net.parameters()) {
    CAPTURE(each.name);
    CHECK(with.net.values().canonical(with.parameter(each.name)) ==
          without.net.values().canonical(each));
    CHECK(with.gradient(with.parameter(each.name)) == without.gradient(each));
  }
  CHECK(with.net.parameters().size() == without.net.parameters().size());
}

TEST_CASE("tests compute the results of a network that has only the test layers") {
  const Net::Options keep{.keep = {"f", "double"}};
  Made net(kPhased, keep), alone(kTestedAlone, keep);
  Made forward_only(kPhased, {.training = false, .keep = {"f", "double"}});
  for (uint64_t round = 0; round < 2; ++round) {
    net.set_batch(round);
    net.train();
    for (Made* each : {&net, &alone, &forward_only}) each->set_batch(round + 10);
    alone.take_values(net);
    forward_only.take_values(net);
    CHECK(net.loss(Phase::kTest) == alone.loss(Phase::kTest));
    CHECK(forward_only.loss(Phase::kTest) == doctest::Approx(net.loss(Phase::kTest)));
    CHECK(net.net.output("f") == alone.net.output("f"));
    CHECK(net.net.output("double") == alone.net.output("double"));
    CHECK(net.net.read_scalars().at(0).values == alone.net.read_scalars().at(0).values);
  }
  CHECK(forward_only.net.parameters().size() == alone.net.parameters().size());
}

TEST_CASE("each phase reports the scalars and the kept outputs of its own layers") {
  Made net(kPhased, {.keep = {"cube", "double"}});
  net.loss(Phase::kTrain);
  CHECK(scalars_of(net.net) == Names{"aux", "aux", "aux", "loss", "loss", "loss"});
  CHECK(net.net.output("cube").size() == 4 * 6 * 36);
  CHECK_THROWS_AS(net.net.output("double"), LogicError);
  net.loss(Phase::kTest);
  CHECK(scalars_of(net.net) == Names{"accuracy", "loss", "loss", "loss"});
  CHECK(net.net.read_scalars().size() == 4);
  CHECK(net.net.output("double").size() == 4 * 5);
  CHECK_THROWS_AS(net.net.output("cube"), LogicError);
}

TEST_CASE("gradients of a network with phase-specific layers agree with finite differences") {
  Made net(kPhased);
  net.loss(Phase::kTrain);
  net.net.backward(net.step(Phase::kTrain));
  for (const Parameter& parameter : net.net.parameters()) {
    const Floats gradient = net.gradient(parameter), start = net.net.values().canonical(parameter);
    for (size_t i = 0; i < start.size(); i += start.size() / 4 + 1) {
      const auto loss_at = [&](float shift) {
        Floats moved = start;
        moved[i] += shift;
        net.net.values().set_canonical(parameter, moved);
        return net.loss(Phase::kTrain);
      };
      const double slope = (loss_at(5e-3F) - loss_at(-5e-3F)) / 1e-2;
      net.net.values().set_canonical(parameter, start);
      INFO(parameter.name, " ", i);
      CHECK(static_cast<double>(gradient[i]) == doctest::Approx(slope).epsilon(0.03).scale(0.05));
    }
  }
}

TEST_CASE("tests read the current version of parameters and statistics") {
  Made two(kPhased, {.versions = 2}), one(kPhased);
  const double before = one.loss(Phase::kTest);
  CHECK(two.loss(Phase::kTest) == before);
  const auto value_after = [](Made& net) {
    for (const Parameter& each : net.net.parameters())
      std::ranges::transform(each.value(), each.next().begin(), [](float v) { return 1.5F * v; });
    for (Statistic& each : net.net.parameters().statistics())
      std::ranges::transform(each.value(), each.next().begin(), [](float v) { return v + 0.25F; });
  };
  value_after(one);  // with one version, the next values are the current ones
  value_after(two);
  CHECK(two.loss(Phase::kTest) == before);
  const double after = one.loss(Phase::kTest);
  CHECK(after != before);
  for (const int layer : two.net.parameters().summed_layers()) two.net.parameters().flip(layer);
  CHECK(two.loss(Phase::kTest) == after);
  for (const int layer : two.net.parameters().summed_layers()) two.net.parameters().flip(layer);
  CHECK(two.loss(Phase::kTest) == before);
}

TEST_CASE("gates are called in both phases, for layers with trained tensors") {
  Made net(kPhased);
  const auto asked = [&](Phase phase) {
    Names names;
    net.net.forward(net.step(phase),
                    [&](int layer) { names.push_back(net.net.layer_name(layer)); });
    return names;
  };
  CHECK(asked(Phase::kTrain) == Names{"c", "b", "aux_f", "f"});
  CHECK(asked(Phase::kTest) == Names{"c", "b", "f"});
}

TEST_CASE("test layers share the parameters of training layers") {
  Made net(R"({"name": "f", "type": "linear", "outputs": 5, "weight_filler": {"type": "xavier"}},
    {"name": "g", "phase": "test", "input": "input", "type": "linear", "outputs": 5, "shares": "f"},
    {"name": "loss", "input": "f", "type": "softmax_loss"})",
           {.keep = {"f", "g"}, .versions = 2});
  net.loss(Phase::kTest);
  CHECK(net.net.output("f") == net.net.output("g"));
  CHECK(net.net.parameters().size() == 2);
  for (const Parameter& each : net.net.parameters())
    std::ranges::transform(each.value(), each.next().begin(), [](float v) { return 2 * v + 1; });
  const Floats before = net.net.output("g");
  net.net.parameters().flip(0);
  net.loss(Phase::kTest);
  CHECK(net.net.output("f") == net.net.output("g"));
  CHECK(net.net.output("g") != before);
}

TEST_CASE("a layer that sends factors uses the trained weight in tests") {
  const Net::Options factored{.keep = {"f"}, .factored = {"f"}, .factor_rows = 4};
  Made net(kPhased, factored), alone(kTestedAlone, {.keep = {"f"}});
  alone.take_values(net);
  net.loss(Phase::kTest);
  alone.loss(Phase::kTest);
  CHECK(net.net.output("f") == alone.net.output("f"));
}

TEST_CASE("test layers may read labels that training ignores, also with mixup") {
  for (const LabelForm form : {LabelForm::kPlain, LabelForm::kMixed}) {
    Made net(R"({"name": "f", "type": "linear", "outputs": 5, "weight_filler": {"type": "xavier"}},
      {"name": "zero", "phase": "train", "type": "power", "scale": 0},
      {"name": "loss", "phase": "train", "inputs": ["f", "zero"], "type": "euclidean_loss"},
      {"name": "top", "phase": "test", "input": "f", "type": "accuracy"},
      {"name": "hinge", "phase": "test", "input": "f", "type": "hinge_loss"})",
             {.keep = {"f"}}, form);
    net.train();
    net.loss(Phase::kTest);
    const Floats scores = net.net.output("f"), hits = net.net.read_scalars().at(0).values;
    for (size_t n = 0; n < 4; ++n) {
      const auto row = scores.begin() + static_cast<std::ptrdiff_t>(5 * n);
      CHECK((std::max_element(row, row + 5) - row == net.labels[n]) == (hits[n] == 1));
    }
  }
}

TEST_CASE("both phases share one memory block, and its size is known before allocation") {
  Made with(kPhased), without(kTrainedAlone);
  const NetMemory both = with.net.memory(), training = without.net.memory();
  CHECK(both.parameters == training.parameters);
  CHECK(both.gradients == training.gradients);
  CHECK(both.activations + both.scratch <
        1.1 * static_cast<double>(training.activations + training.scratch));
  Net asked(with.network, *with.factory, {.allocates_memory = false});
  CHECK(asked.memory().total() == both.total());
}

}  // namespace poseidon::net
