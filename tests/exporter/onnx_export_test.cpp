#include "exporter/onnx_export.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/error.h"
#include "layers/registry.h"
#include "tests/exporter/made_weights.h"
#include "tests/exporter/read_model.h"
#include "tests/importer/recording_log.h"
#include "tests/support/error_of.h"
#include "tests/support/folders.h"

namespace poseidon::exporter {
namespace {

using RecordingLog = importer::made::RecordingLog;
using made::ReadModel;
using made::Weights;
using Floats = std::vector<float>;
using Lines = std::vector<std::string>;

/// Small networks, each with its model as text, as the onnx package reads it. ONNX Runtime gives
/// the same outputs for them (tests/reference/exchange_check.py --layers).
Json layer_cases() {
  return read_json(std::filesystem::path(test::source_folder()) /
                   "tests/exporter/onnx_layers.json");
}

Json network_of(const Json& layers,
                const Json& input = {{"channels", 3}, {"height", 8}, {"width", 8}}) {
  return {{"name", "case"}, {"input", input}, {"layers", layers}};
}

std::vector<std::byte> bytes_of(const WireWriter& writer) {
  std::vector<std::byte> bytes;
  writer.write([&bytes](std::span<const std::byte> piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  });
  CHECK(writer.size() == bytes.size());
  return bytes;
}

ReadModel exported(const Weights& weights, const OnnxExport& asked = {}) {
  RecordingLog said;
  const TrainedWeights trained(weights.path(), "", said);
  return made::read_model(bytes_of(encode(make_onnx_model(trained, asked))));
}

/// Values that make any misplaced element visible. Variances are above 0.
float value_of(const std::string& name, size_t index) {
  return Weights::counting(name, index) + (name.ends_with("_var") ? 1.0F : 0.0F);
}

}  // namespace

TEST_CASE("each layer is exported as the expected ONNX nodes") {
  for (const Json& each : layer_cases()) {
    const auto name = each["case"].get<std::string>();
    CAPTURE(name);
    const ReadModel model = exported(Weights(network_of(each["layers"], each["input"])));
    CHECK(model.lines() == each["model"].get<Lines>());
    CHECK(model.ir_version == 8);
    CHECK(model.opset == 17);
    CHECK(model.producer == "poseidon");
    CHECK(model.graph == "case");
    for (const auto& [tensor, extents] : each["tensors"].items()) {
      const Floats values = model.tensor(tensor).floats();
      for (size_t i = 0; i < values.size(); ++i) CHECK(values[i] == Weights::counting(tensor, i));
    }
  }
}

TEST_CASE("a test-only layer does not change the inputs of the layers after it") {
  const char* with_hits =
      R"({"name": "hits", "phase": "test", "input": "aux", "type": "accuracy"},)";
  const auto lines_of = [](const std::string& between) {
    return exported(Weights(network_of(Json::parse(
                        R"([{"name": "aux", "type": "linear", "outputs": 2},
                            {"name": "aux_loss", "type": "softmax_loss", "weight": 0.3},)" +
                        between +
                        R"({"name": "c", "input": "input", "type": "convolution", "outputs": 4,
                            "kernel": 1},
                           {"name": "fc", "type": "linear", "outputs": 2},
                           {"name": "loss", "type": "softmax_loss"}])"))))
        .lines();
  };
  const Lines lines = lines_of(with_hits);
  CHECK(lines == lines_of(""));
  // Both linear layers read 4-D values, so both need a Flatten node.
  CHECK(std::ranges::count_if(lines, [](const std::string& line) {
          return line.find("Flatten(") != std::string::npos;
        }) == 2);
}

TEST_CASE("each layer type except losses has an export case") {
  std::set<std::string> types;
  for (const Json& each : layer_cases())
    for (const Json& layer : each["layers"]) types.insert(layer["type"]);
  for (const layers::LayerType& type : layers::layer_types())
    if (!type.make()->is_loss()) CHECK_MESSAGE(types.contains(type.name), type.name);
}

TEST_CASE("a batch norm is folded into the previous layer") {
  const Json layers = Json::parse(R"([
    {"name": "conv", "type": "convolution", "outputs": 2, "kernel": [1, 2], "bias": false},
    {"name": "bn1", "type": "batch_norm", "epsilon": 0.5},
    {"name": "fc", "type": "linear", "outputs": 2},
    {"name": "bn2", "type": "batch_norm"},
    {"name": "relu", "type": "relu"}])");
  const Weights weights(network_of(layers, {{"channels", 1}, {"height", 1}, {"width", 2}}),
                        value_of);
  const ReadModel model = exported(weights, {.fold_batch_norm = true});
  CHECK(model.nodes == Lines{"Conv(input, conv.weight, conv.bias) -> bn1 dilations=[1, 1] group=1 "
                             "kernel_shape=[1, 2] pads=[0, 0, 0, 0] strides=[1, 1]",
                             "Flatten(bn1) -> fc..1 axis=1",
                             "Gemm(fc..1, fc.weight, fc.bias) -> bn2 transB=1",
                             "Relu(bn2) -> relu"});
  CHECK(model.tensors.size() == 4);
  const Floats weight = model.tensor("conv.weight").floats(),
               bias = model.tensor("conv.bias").floats(),
               fc_bias = model.tensor("fc.bias").floats();
  for (size_t channel = 0; channel < 2; ++channel) {
    const auto factor_of = [&](const std::string& norm, double epsilon) {
      return value_of(norm + ".scale", channel) /
             std::sqrt(value_of(norm + ".running_var", channel) + epsilon);
    };
    const double factor = factor_of("bn1", 0.5), fc_factor = factor_of("bn2", 1e-5);
    CHECK(weight[channel * 2 + 1] ==
          static_cast<float>(value_of("conv.weight", channel * 2 + 1) * factor));
    CHECK(bias[channel] == static_cast<float>(value_of("bn1.shift", channel) -
                                              value_of("bn1.running_mean", channel) * factor));
    CHECK(fc_bias[channel] ==
          static_cast<float>((static_cast<double>(value_of("fc.bias", channel)) -
                              value_of("bn2.running_mean", channel)) *
                                 fc_factor +
                             value_of("bn2.shift", channel)));
  }
}

TEST_CASE("a batch norm is not folded if another layer uses its input or the weight") {
  const auto nodes = [](const char* layers) {
    return exported(Weights(network_of(Json::parse(layers)), value_of), {.fold_batch_norm = true})
        .nodes.size();
  };
  CHECK(nodes(R"([{"name": "a", "type": "convolution", "outputs": 3, "kernel": 1},
                  {"name": "b", "type": "batch_norm"},
                  {"name": "c", "type": "eltwise", "inputs": ["a", "b"]}])") == 3);
  CHECK(nodes(R"([{"name": "a", "type": "linear", "outputs": 3},
                  {"name": "b", "type": "batch_norm"},
                  {"name": "loss", "type": "softmax_loss", "input": "a"}])") == 3);
  CHECK(nodes(R"([{"name": "a", "type": "convolution", "outputs": 3, "kernel": 1},
                  {"name": "d", "type": "convolution", "outputs": 3, "kernel": 1, "shares": "a"},
                  {"name": "b", "type": "batch_norm"}])") == 3);
  CHECK(nodes(R"([{"name": "a", "type": "batch_norm"}])") == 1);
}

TEST_CASE("a layer that ONNX cannot express is refused by name") {
  const auto refusal = [](const Json& layers) {
    const Weights weights(network_of(layers));
    const std::string message = error_of<ConfigError>([&] { exported(weights); });
    return message.substr(message.find("network.json: ") + 14);
  };
  CHECK(refusal({{{"name", "f"}, {"type", "flatten"}}, {{"name", "a"}, {"type", "lrn"}}}) ==
        "layer \"a\" of type lrn cannot be exported to ONNX: expected an input with height and "
        "width, got 1x192");
  CHECK(refusal({{{"name", "a"}, {"type", "tile"}, {"tiles", 2}, {"input", "label"}}}) ==
        "layer \"a\" of type tile cannot be exported to ONNX: it reads labels, but an ONNX model "
        "has no input for labels");
  CHECK(refusal({{{"name", "a"}, {"type", "silence"}}}) ==
        "expected at least one layer before the losses, got none");
}

TEST_CASE("a model contains the test network") {
  const Json common = Json::parse(R"([
    {"name": "c", "type": "convolution", "outputs": 4, "kernel": 3}, {"name": "n", "type": "batch_norm"},
    {"name": "f", "type": "linear", "outputs": 5}, {"name": "p", "type": "softmax"},
    {"name": "loss", "input": "f", "type": "softmax_loss"}])");
  Json phased = common;
  phased[3]["phase"] = "test";
  const Json trained = Json::parse(R"([
    {"name": "head", "phase": "train", "type": "linear", "outputs": 5},
    {"name": "head_loss", "phase": "train", "type": "softmax_loss"},
    {"name": "noise", "phase": "train", "input": "n", "type": "dropout"}])");
  phased.insert(phased.begin() + 2, trained.begin(), trained.end());
  for (const bool fold : {false, true}) {
    const OnnxExport asked{.fold_batch_norm = fold};
    const ReadModel model = exported(Weights(network_of(phased)), asked);
    const ReadModel expected = exported(Weights(network_of(common)), asked);
    CHECK(model.lines() == expected.lines());
    CHECK(model.tensor("f.weight").floats() == expected.tensor("f.weight").floats());
  }
}

TEST_CASE("auxiliary inputs become model inputs, except those that only losses read") {
  Json network = network_of(Json::parse(R"([
    {"name": "a", "type": "linear", "outputs": 2},
    {"name": "b", "type": "linear", "input": "pose", "outputs": 2},
    {"name": "c", "type": "convolution", "input": "map", "outputs": 2, "kernel": 3},
    {"name": "f", "type": "linear", "outputs": 2},
    {"name": "s", "type": "eltwise", "inputs": ["a", "b", "f"]},
    {"name": "apart", "type": "euclidean_loss", "inputs": ["s", "target"]}])"));
  network["inputs"] = Json::parse(R"([{"name": "target", "shape": [2]},
                                      {"name": "map", "shape": [1, 3, 4]},
                                      {"name": "pose", "shape": [4]}])");
  const ReadModel model = exported(Weights(network));
  REQUIRE(model.inputs.size() == 3);
  CHECK(model.inputs[0].starts_with("input"));
  CHECK(model.inputs[1].starts_with("map"));
  CHECK(model.inputs[2].starts_with("pose"));
  const auto reads = [&](const std::string& name) {
    return std::ranges::any_of(model.nodes, [&](const std::string& node) {
      return node.find("(" + name + ", ") != std::string::npos;
    });
  };
  CHECK(reads("pose"));
  CHECK(reads("map"));
}

TEST_CASE("the file contains the model, and the report counts nodes and tensors") {
  const Weights weights(network_of(Json::parse(R"([{"name": "a", "type": "bias"}])")));
  RecordingLog said;
  const TrainedWeights trained(weights.path(), "", said);
  const OnnxReport report = export_onnx(trained, {}, weights.folder / "model.onnx");
  CHECK(report.nodes == 1);
  CHECK(report.tensors == 1);
  CHECK(report.outputs == Lines{"a"});
  CHECK(data::made::read(weights.folder / "model.onnx") ==
        bytes_of(encode(make_onnx_model(trained, {}))));
}

TEST_CASE("the protobuf writer encodes integers, floats, bytes, text and messages") {
  WireWriter inner;
  inner.integer(1, -1);
  WireWriter writer;
  writer.integer(1, 300);
  writer.single(2, 1.5F);
  writer.message(16, inner);
  writer.bytes(3, 2, [](std::span<std::byte> to) { std::ranges::fill(to, std::byte{7}); });
  writer.text(4, "ab");
  const std::vector<std::byte> bytes = bytes_of(writer);
  const std::vector<int> expected{0x08, 0xAC, 0x02,                    // 300
                                  0x15, 0x00, 0x00, 0xC0, 0x3F,        // 1.5
                                  0x82, 0x01, 0x0B, 0x08, 0xFF, 0xFF,  // -1, in a message
                                  0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,  //
                                  0xFF, 0x01,                          //
                                  0x1A, 0x02, 0x07, 0x07,              //
                                  0x22, 0x02, 'a',  'b'};
  REQUIRE(bytes.size() == expected.size());
  for (size_t i = 0; i < bytes.size(); ++i) CHECK(std::to_integer<int>(bytes[i]) == expected[i]);
}

}  // namespace poseidon::exporter
