// ONNX rules of elementwise layers, including layers with a factor or summand per channel.

#include <cmath>

#include "exporter/onnx_layer.h"
#include "layers/channel_functions.h"
#include "layers/functions.h"

namespace poseidon::exporter {

namespace {

constexpr int64_t kToFloat = 1;

/// Adds nodes that compute scale * x + shift of the layer's input x. Returns the name of the
/// result, which is the input's name if no node is needed.
std::string scaled(OnnxLayer& layer, double scale, double shift) {
  std::string value = layer.input();
  if (scale != 1) value = layer.put("Mul", {value, layer.scalar(scale)});
  if (shift != 0) value = layer.put("Add", {value, layer.scalar(shift)});
  return value;
}

/// Rule for a layer that one ONNX operator computes.
template <const char* kType>
void put_plain(OnnxLayer& layer) {
  layer.finish(kType, layer.inputs());
}
constexpr char kAbs[] = "Abs", kSigmoid[] = "Sigmoid", kSoftplus[] = "Softplus", kTanh[] = "Tanh";

void put_clip(OnnxLayer& layer) {
  const auto& clip = layer.definition<layers::Clip>();
  layer.finish("Clip", {layer.input(), layer.scalar(clip.minimum), layer.scalar(clip.maximum)});
}

void put_elu(OnnxLayer& layer) {
  layer.finish("Elu", layer.inputs(), {{"alpha", layer.definition<layers::Elu>().alpha}});
}

void put_exp(OnnxLayer& layer) {
  const auto& exp = layer.definition<layers::Exp>();
  const double rate = std::log(exp.base);
  layer.finish("Exp", {scaled(layer, exp.scale * rate, exp.shift * rate)});
}

void put_log(OnnxLayer& layer) {
  const auto& log = layer.definition<layers::Log>();
  const std::string natural = layer.put("Log", {scaled(layer, log.scale, log.shift)});
  layer.finish("Mul", {natural, layer.scalar(1 / std::log(log.base))});
}

void put_power(OnnxLayer& layer) {
  const auto& power = layer.definition<layers::Power>();
  layer.finish("Pow", {scaled(layer, power.scale, power.shift), layer.scalar(power.power)});
}

void put_relu(OnnxLayer& layer) {
  const double slope = layer.definition<layers::Relu>().slope;
  if (slope == 0)
    layer.finish("Relu", layer.inputs());
  else
    layer.finish("LeakyRelu", layer.inputs(), {{"alpha", slope}});
}

void put_swish(OnnxLayer& layer) {
  const std::string gate =
      layer.put("Sigmoid", {scaled(layer, layer.definition<layers::Swish>().beta, 0)});
  layer.finish("Mul", {layer.input(), gate});
}

void put_threshold(OnnxLayer& layer) {
  const std::string above = layer.put(
      "Greater", {layer.input(), layer.scalar(layer.definition<layers::Threshold>().threshold)});
  layer.finish("Cast", {above}, {{"to", kToFloat}});
}

// ---- by channel

/// Adds a parameter with one value per channel. The shape is (channels, 1, 1) for images, so that
/// ONNX broadcasts it over samples, rows and columns.
std::string along_channels(OnnxLayer& layer, const std::string& name) {
  std::vector<int64_t> extents(static_cast<size_t>(layer.input_shape().rank() - 1), 1);
  extents[0] = layer.input_shape().channels();
  return layer.trained(name, std::move(extents));
}

void put_bias(OnnxLayer& layer) {
  layer.finish("Add", {layer.input(), along_channels(layer, "bias")});
}

void put_prelu(OnnxLayer& layer) {
  const bool shared = layer.definition<layers::Prelu>().shared;
  layer.finish("PRelu",
               {layer.input(), shared ? layer.trained("slope") : along_channels(layer, "slope")});
}

/// Returns the name of the second input. If the two inputs differ in rank, adds a node that
/// reshapes the second one, and returns the name of the result.
std::string given_factor(OnnxLayer& layer) {
  const int rank = layer.input_shape(0).rank();
  if (layer.input_shape(1).rank() == rank) return layer.input(1);
  std::vector<int64_t> extents(static_cast<size_t>(rank), 1);
  extents[0] = 0;
  extents[1] = layer.input_shape(1).channels();
  return layer.put("Reshape", {layer.input(1), layer.integers(std::move(extents))});
}

void put_scale(OnnxLayer& layer) {
  const bool given = layer.input_count() == 2;
  const OnnxLayer::Names factors{layer.input(),
                                 given ? given_factor(layer) : along_channels(layer, "scale")};
  if (!layer.definition<layers::Scale>().bias) return layer.finish("Mul", factors);
  const std::string product = layer.put("Mul", factors);
  layer.finish("Add", {product, along_channels(layer, "bias")});
}

}  // namespace

OnnxRules onnx_function_rules() {
  return {{"absval", put_plain<kAbs>},
          {"bias", put_bias},
          {"bnll", put_plain<kSoftplus>},
          {"clip", put_clip},
          {"elu", put_elu},
          {"exp", put_exp},
          {"log", put_log},
          {"power", put_power},
          {"prelu", put_prelu},
          {"relu", put_relu},
          {"scale", put_scale},
          {"sigmoid", put_plain<kSigmoid>},
          {"swish", put_swish},
          {"tanh", put_plain<kTanh>},
          {"threshold", put_threshold}};
}

}  // namespace poseidon::exporter
