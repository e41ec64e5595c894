// ONNX rules of layers that normalize the values of a channel, window or sample.

#include "exporter/onnx_layer.h"
#include "layers/batch_norm.h"
#include "layers/lrn.h"
#include "layers/mvn.h"

namespace poseidon::exporter {

namespace {

void put_batch_norm(OnnxLayer& layer) {
  layer.finish("BatchNormalization",
               {layer.input(), layer.trained("scale"), layer.trained("shift"),
                layer.trained("running_mean"), layer.trained("running_var")},
               {{"epsilon", layer.definition<layers::BatchNorm>().epsilon}});
}

/// Rule for LRN within a channel. An average pooling that counts padding computes the sum of
/// squares divided by the number of cells in the window.
void put_lrn_within(OnnxLayer& layer, const layers::Lrn& lrn) {
  using Integers = std::vector<int64_t>;
  const int64_t reach = (lrn.size - 1) / 2;
  const std::string square = layer.put("Mul", {layer.input(), layer.input()}),
                    mean = layer.put("AveragePool", {square},
                                     {{"kernel_shape", Integers{lrn.size, lrn.size}},
                                      {"pads", Integers{reach, reach, reach, reach}},
                                      {"strides", Integers{1, 1}},
                                      {"count_include_pad", int64_t{1}}}),
                    scaled = layer.put("Mul", {mean, layer.scalar(lrn.alpha)}),
                    sum = layer.put("Add", {scaled, layer.scalar(lrn.k)}),
                    divisor = layer.put("Pow", {sum, layer.scalar(lrn.beta)});
  layer.finish("Div", {layer.input(), divisor});
}

void put_lrn(OnnxLayer& layer) {
  const auto& lrn = layer.definition<layers::Lrn>();
  if (lrn.region == layers::LrnRegion::kWithinChannel) return put_lrn_within(layer, lrn);
  if (layer.input_shape().rank() != 4)
    layer.refuse("expected an input with height and width, got " + layer.input_shape().text());
  layer.finish("LRN", layer.inputs(),
               {{"alpha", lrn.alpha}, {"beta", lrn.beta}, {"bias", lrn.k}, {"size", lrn.size}});
}

void put_mvn(OnnxLayer& layer) {
  const auto& mvn = layer.definition<layers::Mvn>();
  if (mvn.population() == 1) return layer.finish("Sub", {layer.input(), layer.input()});
  std::vector<int64_t> axes;
  for (int axis = mvn.across_channels ? 1 : 2; axis < layer.input_shape().rank(); ++axis)
    axes.push_back(axis);
  const OnnxLayer::Names around{layer.input(),
                                layer.put("ReduceMean", layer.inputs(), {{"axes", axes}})};
  if (!mvn.variance) return layer.finish("Sub", around);
  const std::string centred = layer.put("Sub", around),
                    square = layer.put("Mul", {centred, centred}),
                    variance = layer.put("ReduceMean", {square}, {{"axes", axes}}),
                    deviation = layer.put("Sqrt", {variance}),
                    divisor = layer.put("Add", {deviation, layer.scalar(mvn.epsilon)});
  layer.finish("Div", {centred, divisor});
}

void put_softmax(OnnxLayer& layer) {
  layer.finish("Softmax", layer.inputs(), {{"axis", int64_t{1}}});
}

}  // namespace

OnnxRules onnx_normalization_rules() {
  return {
      {"batch_norm", put_batch_norm}, {"lrn", put_lrn}, {"mvn", put_mvn}, {"softmax", put_softmax}};
}

}  // namespace poseidon::exporter
