#include "net/network.h"

#include <doctest/doctest.h>

#include "core/error.h"
#include "core/json.h"
#include "tests/support/error_of.h"
#include "tests/support/folders.h"

namespace poseidon::net {
namespace {

Network shipped(const std::string& name, int64_t batch = 1) {
  return Network(
      std::filesystem::path(test::source_folder() + "/configs/networks/" + name + ".json"), batch);
}

Network parsed(const std::string& json, int64_t batch = 2) {
  return Network(parse_json(json, "n.json"), "n.json", batch);
}

/// A network with these layers and an input of 3 x 8 x 8.
std::string with_layers(const std::string& layers, const std::string& more = "") {
  return R"({"name": "n", "input": {"channels": 3, "height": 8, "width": 8}, )" + more +
         R"("layers": [)" + layers + "]}";
}

std::string error_of(const std::string& json) {
  try {
    parsed(json);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("shipped networks have the published numbers of parameters") {
  CHECK(shipped("lenet").parameter_count() == 431'080);
  CHECK(shipped("cifar10_quick").parameter_count() == 145'578);
  CHECK(shipped("cifar10_full").parameter_count() == 89'578);
  CHECK(shipped("alexnet").parameter_count() == 60'965'224);
  CHECK(shipped("alexnet-torchvision").parameter_count() == 61'100'840);
  CHECK(shipped("caffenet").parameter_count() == 60'965'224);
  CHECK(shipped("efficientnet_b0").parameter_count() == 5'288'548);
  CHECK(shipped("mobilenet_v2").parameter_count() == 3'504'872);
  CHECK(shipped("googlenet").parameter_count() == 13'378'280);
  CHECK(shipped("googlenet-plain").parameter_count() == 6'998'552);
  CHECK(shipped("googlenet-torchvision").parameter_count() == 13'004'888);
  CHECK(shipped("googlenet-torchvision-plain").parameter_count() == 6'624'904);
  CHECK(shipped("inception_v3").parameter_count() == 27'161'264);
  CHECK(shipped("inception_v3-plain").parameter_count() == 23'834'568);
  CHECK(shipped("vgg11").parameter_count() == 132'863'336);
  CHECK(shipped("vgg16").parameter_count() == 138'357'544);
  CHECK(shipped("vgg19").parameter_count() == 143'667'240);
  CHECK(shipped("vgg19-22k").parameter_count() == 229'052'817);
  CHECK(shipped("resnet18").parameter_count() == 11'689'512);
  CHECK(shipped("resnet20").parameter_count() == 272'474);
  CHECK(shipped("resnet50").parameter_count() == 25'557'032);
  CHECK(shipped("resnet152").parameter_count() == 60'192'808);
}

TEST_CASE("shapes are inferred through the whole network") {
  const Network network = shipped("alexnet", 4);
  const auto shape_of = [&](const std::string& name) {
    for (const Node& node : network.nodes())
      if (node.definition->name == name) return node.output.text();
    return std::string("none");
  };
  CHECK(shape_of("conv1") == "4x96x55x55");
  CHECK(shape_of("pool1") == "4x96x27x27");
  CHECK(shape_of("pool5") == "4x256x6x6");
  CHECK(shape_of("fc8") == "4x1000");
  CHECK(network.classes() == 1000);
}

TEST_CASE("summary counts every activation and parameter once") {
  const Json summary =
      parsed(with_layers(R"({"name": "c", "type": "convolution", "outputs": 4, "kernel": 3},
                                             {"name": "f", "type": "linear", "outputs": 10},
                                             {"name": "loss", "type": "softmax_loss"})"))
          .summary();
  CHECK(summary["parameters"] == 4 * 3 * 9 + 4 + 10 * 4 * 36 + 10);
  CHECK(summary["parameter_bytes"] == 4 * summary["parameters"].get<int64_t>());
  CHECK(summary["activation_bytes"] == 4 * (2 * 3 * 64 + 2 * 4 * 36 + 2 * 10 + 2 * 3));
  CHECK(
      summary["layers"][0] ==
      Json::parse(
          R"({"name": "c", "type": "convolution", "output_shape": [2, 4, 6, 6], "parameters": 112})"));
}

TEST_CASE("the network file may list layers in any order") {
  const Network network =
      parsed(with_layers(R"({"name": "loss", "type": "softmax_loss", "input": "f"},
                                                {"name": "f", "type": "linear", "outputs": 5, "input": "input"})"));
  CHECK(network.nodes()[0].definition->name == "f");
  CHECK(network.nodes()[1].inputs == std::vector<int>{0, kNetworkLabel});
}

TEST_CASE("losses read labels implicitly or by name, and the name of the labels is reserved") {
  const auto with_loss = [](const char* loss) {
    return with_layers(std::string(R"({"name": "f", "type": "linear", "outputs": 5},)") + loss);
  };
  const Network named =
      parsed(with_loss(R"({"name": "loss", "type": "softmax_loss", "inputs": ["f", "label"]})"));
  CHECK(named.nodes()[1].inputs == std::vector<int>{0, kNetworkLabel});
  CHECK(named.reads_labels());
  CHECK(named.shape_of(kNetworkLabel) == Shape{2, 1});
  const Network regression = parsed(with_layers(R"({"name": "f", "type": "linear", "outputs": 1},
                     {"name": "loss", "type": "euclidean_loss", "inputs": ["f", "label"]})"));
  CHECK(regression.nodes()[1].inputs == std::vector<int>{0, kNetworkLabel});
  CHECK(error_of(with_loss(R"({"name": "loss", "type": "softmax_loss", "inputs": ["f", "f"]})"))
            .find("expected \"label\" (the samples' labels) as the last input, got \"f\"") !=
        std::string::npos);
  CHECK(error_of(with_layers(R"({"name": "label", "type": "relu"})"))
            .find("\"label\" is reserved for the samples' labels") != std::string::npos);
}

TEST_CASE("auxiliary inputs have a name and a shape, and layers read them like other tensors") {
  const Network network = parsed(with_layers(
      R"({"name": "f", "type": "linear", "outputs": 5},
         {"name": "g", "type": "linear", "outputs": 5, "input": "pose"},
         {"name": "s", "type": "eltwise", "inputs": ["f", "g"]},
         {"name": "c", "type": "convolution", "outputs": 2, "kernel": 3, "input": "map"},
         {"name": "loss", "type": "softmax_loss", "input": "s"})",
      R"("inputs": [{"name": "map", "shape": [1, 4, 5]}, {"name": "pose", "shape": [6]}],)"));
  CHECK(network.extras() == std::vector<AuxiliaryInput>{{"map", {1, 4, 5}}, {"pose", {6}}});
  CHECK(network.nodes()[1].inputs == std::vector<int>{auxiliary_input_number(1)});
  CHECK(network.nodes()[3].inputs == std::vector<int>{auxiliary_input_number(0)});
  CHECK(network.shape_of(auxiliary_input_number(0)) == Shape{2, 1, 4, 5});
  CHECK(network.shape_of(auxiliary_input_number(1)) == Shape{2, 6});
  CHECK(source_name(network, auxiliary_input_number(1)) == "pose");
  CHECK(network.nodes()[3].output == Shape{2, 2, 2, 3});
  CHECK(network.in_test().extras() == network.extras());
  CHECK_FALSE(network.index_of("pose"));
  CHECK(parsed(with_layers(R"({"name": "f", "type": "linear", "outputs": 5})")).extras().empty());
}

TEST_CASE("errors in auxiliary inputs are reported with their JSON path") {
  const auto with_inputs = [](const std::string& inputs, const std::string& layer = "") {
    return error_of(with_layers(R"({"name": "f", "type": "linear", "outputs": 5})" + layer,
                                "\"inputs\": [" + inputs + "],"));
  };
  CHECK(with_inputs(R"({"name": "label", "shape": [2]})") ==
        "n.json: /inputs/0/name: \"label\" is reserved for the samples' labels");
  CHECK(with_inputs(R"({"name": "a.b", "shape": [2]})") ==
        "n.json: /inputs/0/name: expected 1 to 100 letters, digits, \"_\" or \"-\", got \"a.b\"");
  CHECK(with_inputs(R"({"name": "a", "shape": [2]}, {"name": "a", "shape": [3]})") ==
        "n.json: /inputs/1/name: the name \"a\" is used twice");
  CHECK(with_inputs(R"({"name": "a", "shape": [2, 3]})") ==
        "n.json: /inputs/0/shape: expected [channels, height, width] or [values], got 2 numbers");
  CHECK(
      with_inputs(R"({"name": "a", "shape": [20000, 20000, 20000]})") ==
      "n.json: /inputs/0/shape: expected fewer than 2^28 values in all auxiliary inputs together");
  CHECK(with_inputs(R"({"name": "a"})").find("/inputs/0: \"shape\" is missing") !=
        std::string::npos);
  CHECK(with_inputs(R"({"name": "f", "shape": [2]})") ==
        "n.json: /layers/0/name: \"f\" is the name of an input of the network");
  CHECK(with_inputs(R"({"name": "pose", "shape": [2]})",
                    R"(, {"name": "g", "type": "relu", "input": "pos"})")
            .find("no layer is named \"pos\"; did you mean \"pose\"?") != std::string::npos);
}

TEST_CASE("mixup labels have three rows, and a loss that does not support them is refused") {
  const auto mixed = [](const char* loss) {
    const std::string json =
        with_layers(std::string(R"({"name": "f", "type": "linear", "outputs": 5},)") + loss);
    return Network(parse_json(json, "n.json"), "n.json", 2, LabelForm::kMixed);
  };
  const Network network = mixed(R"({"name": "loss", "type": "softmax_loss"},
                                   {"name": "top", "type": "accuracy", "input": "f"})");
  CHECK(network.shape_of(kNetworkLabel) == Shape{3, 2});
  CHECK(poseidon::error_of<ConfigError>(
            [&] { mixed(R"({"name": "loss", "type": "hinge_loss"})"); }) ==
        "n.json: /layers/1: a layer of type hinge_loss supports one label per sample, but "
        "\"mix\" in the job combines two: expected softmax_loss or accuracy");
}

TEST_CASE("layers that share parameters count them once") {
  const Network network = parsed(with_layers(
      R"({"name": "a", "type": "linear", "outputs": 5},
         {"name": "b", "type": "linear", "outputs": 5, "input": "input", "shares": "c"},
         {"name": "c", "type": "linear", "outputs": 5, "input": "input", "shares": "a"},
         {"name": "sum", "type": "eltwise", "inputs": ["a", "b", "c"]},
         {"name": "loss", "type": "softmax_loss"})"));
  CHECK(network.parameter_count() ==
        network.nodes()[0].definition->parameters()[0].shape.count() + 5);
  for (const Node& node : network.nodes()) {
    if (node.definition->type() != "linear") continue;
    CHECK(node.shares == (node.definition->name == "a" ? -1 : 0));
    CHECK(node.parameters().empty() == (node.definition->name != "a"));
    CHECK(!node.factors());
    CHECK(node.reaches_loss);
  }
}

TEST_CASE("the error names layers that cannot share parameters") {
  const auto refused = [](const char* layers) { return error_of(with_layers(layers)); };
  const auto says = [](const std::string& error, const char* what) {
    CAPTURE(error);
    CHECK(error.find(what) != std::string::npos);
  };
  says(refused(R"({"name": "a", "type": "linear", "outputs": 5},
                  {"name": "b", "type": "linear", "outputs": 6, "input": "input", "shares": "a"})"),
       "\"b\" cannot share the parameters of \"a\": expected weight of shape 6x");
  says(refused(R"({"name": "a", "type": "linear", "outputs": 5, "bias": false},
                  {"name": "b", "type": "linear", "outputs": 5, "input": "input", "shares": "a"})"),
       "expected 2 parameters, got 1");
  says(refused(R"({"name": "a", "type": "relu"},
                  {"name": "b", "type": "linear", "outputs": 5, "input": "input", "shares": "a"})"),
       "expected a layer of type linear, got type relu");
  says(refused(R"({"name": "a", "type": "batch_norm"},
                  {"name": "b", "type": "batch_norm", "input": "input", "shares": "a"})"),
       "layers of this type have running statistics");
  says(refused(R"({"name": "a", "type": "linear", "outputs": 5, "shares": "bb"},
                  {"name": "b", "type": "linear", "outputs": 5, "input": "input"})"),
       "no layer is named \"bb\"; did you mean \"b\"?");
  says(refused(R"({"name": "a", "type": "linear", "outputs": 5, "shares": "b"},
                  {"name": "b", "type": "linear", "outputs": 5, "shares": "a"})"),
       "in a cycle of inputs");
}

TEST_CASE("blocks expand with parameters, products, repetition and inputs") {
  const Network network = parsed(with_layers(
      R"({"name": "b", "type": "block", "block": "two", "with": {"planes": 4}, "repeat": 2},
         {"name": "sum", "type": "eltwise", "inputs": ["b", "b"]})",
      R"("blocks": {"two": {"parameters": {"planes": null, "side": 1}, "layers": [
           {"name": "narrow", "type": "convolution", "outputs": "$planes", "kernel": "$side"},
           {"name": "wide", "type": "convolution", "outputs": "$planes * 2 * 3", "kernel": 1}]}}, )"));
  REQUIRE(network.nodes().size() == 5);
  CHECK(network.nodes()[0].definition->name == "b.0.narrow");
  CHECK(network.nodes()[3].definition->name == "b.1.wide");
  CHECK(network.nodes()[3].output == Shape{2, 24, 8, 8});
  CHECK(network.nodes()[2].inputs == std::vector<int>{1});
  CHECK(network.nodes()[4].inputs == std::vector<int>{3, 3});
}

TEST_CASE("defaults supply the keys that a layer omits") {
  const Network network = parsed(with_layers(
      R"({"name": "a", "type": "convolution", "outputs": 4}, {"name": "b", "type": "convolution", "outputs": 4, "kernel": 1})",
      R"("defaults": {"convolution": {"kernel": 3, "bias": false}}, )"));
  CHECK(network.nodes()[1].output == Shape{2, 4, 6, 6});
  CHECK(network.parameter_count() == 4 * 3 * 9 + 4 * 4);
}

TEST_CASE("errors in a network are reported with their JSON path") {
  const std::string relu = R"({"name": "r", "type": "relu"})";
  CHECK(error_of(with_layers(
            R"({"name": "c", "type": "convolution", "outputs": 4, "kernel": "three"})")) ==
        "n.json: /layers/0/kernel: expected an integer >= 1, got \"three\"");
  CHECK(
      error_of(with_layers(R"({"name": "c", "type": "convolution", "outputs": 4, "kernal": 3})")) ==
      "n.json: /layers/0/kernal: did you mean \"kernel\", which is missing?");
  CHECK(error_of(with_layers(R"({"name": "r", "type": "relu", "slop": 1})")) ==
        "n.json: /layers/0/slop: unknown key; did you mean \"slope\"?");
  CHECK(error_of(with_layers(R"({"name": "r", "type": "rellu"})")).find("did you mean \"relu\"?") !=
        std::string::npos);
  CHECK(error_of(with_layers(relu + "," + relu)) ==
        "n.json: /layers/1/name: the name \"r\" is used twice");
  CHECK(error_of(with_layers(R"({"name": "r", "type": "relu", "input": "conv"})")) ==
        "n.json: /layers/0/input: no layer is named \"conv\"");
  CHECK(
      error_of(with_layers(
          R"({"name": "a", "type": "relu", "input": "b"}, {"name": "b", "type": "relu", "input": "a"})")) ==
      "n.json: /layers/0: the layer \"a\" is in a cycle of inputs, or depends on one");
  CHECK(error_of(with_layers("")) == "n.json: /layers: a network needs at least one layer");
  CHECK(
      error_of(with_layers(R"({"name": "c", "type": "convolution", "outputs": 4, "kernel": 9})")) ==
      "n.json: /layers/0: [convolution 'c'] kernel spans 9 but the padded input has only 8 rows");
  CHECK(error_of(with_layers(R"({"name": "b", "type": "block", "block": "x"})")) ==
        "n.json: /layers/0/block: no block is named \"x\"");
  CHECK(
      error_of(
          with_layers(
              R"({"name": "c", "type": "convolution", "outputs": 1000000, "kernel": 1, "padding": 4000})"))
          .find("has 2^31 elements or more") != std::string::npos);
  CHECK(
      error_of(
          with_layers(
              R"({"name": "f", "type": "linear", "outputs": 2}, {"name": "l", "type": "softmax_loss"}, {"name": "r", "type": "relu"})"))
          .find("reports scalars, so no layer can read it") != std::string::npos);
}

TEST_CASE("an unknown name under defaults is reported there, not at a layer") {
  const std::string layer = R"({"name": "r", "type": "relu"})";
  const auto refused = [&](const std::string& defaults) {
    return error_of(with_layers(layer, "\"defaults\": " + defaults + ", "));
  };
  CHECK(refused(R"({"rellu": {}})") ==
        "n.json: /defaults/rellu: no layer type has this name; did you mean \"relu\"?");
  CHECK(refused(R"({"relu": {"slop": 1}})") ==
        "n.json: /defaults/relu/slop: unknown key; did you mean \"slope\"?");
}

TEST_CASE("a wrong value under defaults is reported there, with the layer that inherits it") {
  const auto refused = [&](const std::string& defaults, const std::string& layer) {
    return error_of(with_layers(layer, "\"defaults\": " + defaults + ", "));
  };
  const std::string convolution = R"({"name": "c", "type": "convolution", "outputs": 4})";
  const std::string taken = " (inherited by the layer \"c\" at /layers/0)";
  CHECK(refused(R"({"convolution": {"kernel": "three"}})", convolution) ==
        "n.json: /defaults/convolution/kernel: expected an integer >= 1, got \"three\"" + taken);
  CHECK(refused(R"({"convolution": {"kernel": [3, 0]}})", convolution) ==
        "n.json: /defaults/convolution/kernel/1: expected an integer >= 1, got 0" + taken);
  CHECK(refused(R"({"convolution": {"kernel": 1, "weight_filler":
                    {"type": "uniform", "minimum": 1, "maximum": 0}}})",
                convolution) ==
        "n.json: /defaults/convolution/weight_filler: expected \"minimum\" <= \"maximum\", got 1 "
        "and 0" +
            taken);
  // A field of the layer itself is reported at the layer.
  CHECK(refused(R"({"convolution": {"kernel": 1}})",
                R"({"name": "c", "type": "convolution", "outputs": 4, "kernel": 0})") ==
        "n.json: /layers/0/kernel: expected an integer >= 1, got 0");
}

TEST_CASE("an error about conflicting values names the values from defaults") {
  CHECK(error_of(with_layers(R"({"name": "c", "type": "convolution", "outputs": 4})",
                             R"("defaults": {"convolution": {"kernel": 9, "bias": false}}, )")) ==
        "n.json: /layers/0: [convolution 'c'] kernel spans 9 but the padded input has only 8 rows; "
        "\"kernel\" is from /defaults/convolution");
}

TEST_CASE("a wrong value under defaults is reported there also for a layer in a block") {
  const std::string error =
      error_of(with_layers(R"({"name": "b", "type": "block", "block": "x", "repeat": 2})",
                           R"("defaults": {"relu": {"slope": "steep"}},
                              "blocks": {"x": {"layers": [{"name": "r", "type": "relu"}]}}, )"));
  CHECK(
      error ==
      "n.json: /defaults/relu/slope: expected a number >= 0, got \"steep\" (inherited by the layer "
      "\"b.0.r\" at /blocks/x/layers/0)");
}

TEST_CASE("too many multipliers and a filler with swapped bounds are refused") {
  CHECK(error_of(with_layers(R"({"name": "f", "type": "linear", "outputs": 2, "bias": false,
                                 "learning_rate_multipliers": [1, 2]})")) ==
        "n.json: /layers/0: \"learning_rate_multipliers\": expected at most 1 number, one for each "
        "parameter of the layer, got 2");
  CHECK(error_of(with_layers(R"({"name": "f", "type": "linear", "outputs": 2,
                                 "decay_multipliers": [1, 0, 0]})")) ==
        "n.json: /layers/0: \"decay_multipliers\": expected at most 2 numbers, one for each "
        "parameter of the layer, got 3");
  CHECK(error_of(with_layers(R"({"name": "f", "type": "linear", "outputs": 2, "bias_filler":
                                 {"type": "uniform", "minimum": 1, "maximum": 0}})")) ==
        "n.json: /layers/0/bias_filler: expected \"minimum\" <= \"maximum\", got 1 and 0");
}

TEST_CASE("a recursive block is refused") {
  const std::string error = error_of(with_layers(R"({"name": "b", "type": "block", "block": "x"})",
                                                 R"("blocks": {"x": {"layers": [
                                                      {"name": "again", "type": "block", "block": "x"}]}}, )"));
  CHECK(error.find("nested deeper than") != std::string::npos);
}

}  // namespace
}  // namespace poseidon::net
