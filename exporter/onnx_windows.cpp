// ONNX rules of convolution, deconvolution, linear layers and pooling.

#include <algorithm>

#include "exporter/onnx_layer.h"
#include "layers/convolution.h"
#include "layers/deconvolution.h"
#include "layers/pooling.h"

namespace poseidon::exporter {

namespace {

using Integers = std::vector<int64_t>;

Integers both(const std::array<int64_t, 2>& pair) { return {pair[0], pair[1]}; }

/// Returns the padding in ONNX's order: rows before, columns before, rows after, columns after.
Integers pads(const Sides& sides) {
  return {sides.before[0], sides.before[1], sides.after[0], sides.after[1]};
}

OnnxAttributes window_attributes(const layers::ConvolutionKeys& keys) {
  return {{"dilations", both(keys.dilation)},
          {"group", keys.groups},
          {"kernel_shape", both(keys.kernel)},
          {"pads", pads(keys.padding)},
          {"strides", both(keys.stride)}};
}

OnnxLayer::Names input_and_weights(OnnxLayer& layer, std::string input) {
  OnnxLayer::Names names{std::move(input)};
  for (std::string& weight : layer.weights()) names.push_back(std::move(weight));
  return names;
}

void put_convolution(OnnxLayer& layer) {
  layer.finish("Conv", input_and_weights(layer, layer.input()),
               window_attributes(layer.definition<layers::Convolution>()));
}

void put_deconvolution(OnnxLayer& layer) {
  layer.finish("ConvTranspose", input_and_weights(layer, layer.input()),
               window_attributes(layer.definition<layers::Deconvolution>()));
}

void put_linear(OnnxLayer& layer) {
  const bool flat = layer.input_shape().rank() == 2;
  const std::string input =
      flat ? layer.input() : layer.put("Flatten", layer.inputs(), {{"axis", int64_t{1}}});
  layer.finish("Gemm", input_and_weights(layer, input), {{"transB", int64_t{1}}});
}

// ---- pooling

/// Returns the padding that ONNX needs to compute the same number of windows. ONNX rounds this
/// number down. Therefore the padding after the input is the number of cells by which the last
/// window extends beyond the input.
Sides reach(const layers::Pooling& pooling) {
  return {.before = pooling.padding.before, .after = {pooling.overhang(0), pooling.overhang(1)}};
}

OnnxAttributes pooling_attributes(const layers::Pooling& pooling, const Sides& padding) {
  return {{"kernel_shape", both(pooling.kernel)},
          {"pads", pads(padding)},
          {"strides", both(pooling.stride)}};
}

void put_maximum(OnnxLayer& layer, const layers::Pooling& pooling) {
  layer.finish("MaxPool", layer.inputs(), pooling_attributes(pooling, reach(pooling)));
}

/// Poseidon's mean counts cells in the padding, but no cells beyond the padding. If a window
/// reaches beyond the padding, a Pad node adds the padding to the input. The cells beyond it become
/// ONNX's padding, which is not counted.
void put_mean(OnnxLayer& layer, const layers::Pooling& pooling) {
  const Sides &padding = pooling.padding, reached = reach(pooling);
  const bool within = reached.after[0] <= padding.after[0] && reached.after[1] <= padding.after[1];
  if (within) {
    OnnxAttributes attributes = pooling_attributes(pooling, reached);
    attributes.push_back({"count_include_pad", int64_t{1}});
    return layer.finish("AveragePool", layer.inputs(), std::move(attributes));
  }
  Sides beyond;
  for (size_t axis = 0; axis < 2; ++axis)
    beyond.after[axis] = std::max<int64_t>(0, reached.after[axis] - padding.after[axis]);
  std::string input = layer.input();
  if (padding != Sides{}) {
    const auto& [before, after] = padding;
    input = layer.put(
        "Pad", {input, layer.integers({0, 0, before[0], before[1], 0, 0, after[0], after[1]})});
  }
  layer.finish("AveragePool", {input}, pooling_attributes(pooling, beyond));
}

/// In testing, stochastic pooling computes sum(x * x) / sum(x) of each window, or 0 if sum(x) is 0
/// or less. ONNX has no sum over windows. Means over the same cells have the same ratio.
void put_stochastic(OnnxLayer& layer, const layers::Pooling& pooling) {
  const OnnxAttributes attributes = pooling_attributes(pooling, reach(pooling));
  const std::string square = layer.put("Mul", {layer.input(), layer.input()}),
                    squares = layer.put("AveragePool", {square}, attributes),
                    sum = layer.put("AveragePool", layer.inputs(), attributes),
                    zero = layer.scalar(0), some = layer.put("Greater", {sum, zero}),
                    mean = layer.put("Div", {squares, sum});
  layer.finish("Where", {some, mean, zero});
}

/// Adds nodes that compute the mean of each window along `axis` (2: rows, 3: columns). Returns the
/// name of the result.
std::string put_even_means(OnnxLayer& layer, const std::string& input, int64_t axis,
                           const layers::EvenWindows& even) {
  OnnxLayer::Names means;
  for (int64_t window = 0; window < even.windows; ++window) {
    const std::string cells =
        layer.put("Slice", {input, layer.integers({even.begin(window)}),
                            layer.integers({even.end(window)}), layer.integers({axis})});
    means.push_back(layer.put("ReduceMean", {cells}, {{"axes", Integers{axis}}}));
  }
  return layer.put("Concat", means, {{"axis", axis}});
}

/// The mean of a rectangle is the mean over its columns of the means over its rows.
void put_even(OnnxLayer& layer, const layers::Pooling& pooling) {
  const std::string rows = put_even_means(layer, layer.input(), 2, pooling.even_windows(0));
  layer.finish("Identity", {put_even_means(layer, rows, 3, pooling.even_windows(1))});
}

void put_pooling(OnnxLayer& layer) {
  const auto& pooling = layer.definition<layers::Pooling>();
  const bool maximum = pooling.method == layers::PoolingMethod::kMax;
  if (pooling.method == layers::PoolingMethod::kStochastic) return put_stochastic(layer, pooling);
  if (pooling.is_even()) return put_even(layer, pooling);
  if (pooling.global)
    return layer.finish(maximum ? "GlobalMaxPool" : "GlobalAveragePool", layer.inputs());
  return maximum ? put_maximum(layer, pooling) : put_mean(layer, pooling);
}

}  // namespace

OnnxRules onnx_window_rules() {
  return {{"convolution", put_convolution},
          {"deconvolution", put_deconvolution},
          {"linear", put_linear},
          {"pooling", put_pooling}};
}

}  // namespace poseidon::exporter
