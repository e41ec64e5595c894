// ONNX rules of layers that combine, rearrange or reduce values.

#include "exporter/onnx_layer.h"
#include "layers/argmax.h"
#include "layers/crop.h"
#include "layers/eltwise.h"
#include "layers/reduction.h"
#include "layers/slice.h"
#include "layers/tile.h"

namespace poseidon::exporter {

namespace {

constexpr int64_t kOfFloats = 1;

std::string features(OnnxLayer& layer) {
  return layer.put("Flatten", layer.inputs(), {{"axis", int64_t{1}}});
}

void put_argmax(OnnxLayer& layer) {
  const auto& argmax = layer.definition<layers::Argmax>();
  const OnnxLayer::Names best =
      layer.put_two("TopK", {features(layer), layer.integers({argmax.top_k})},
                    {{"axis", int64_t{1}}, {"largest", int64_t{1}}, {"sorted", int64_t{1}}});
  if (!argmax.values) return layer.finish("Cast", {best[1]}, {{"to", kOfFloats}});
  const std::string places = layer.put("Cast", {best[1]}, {{"to", kOfFloats}});
  layer.finish("Concat", {places, best[0]}, {{"axis", int64_t{1}}});
}

void put_concat(OnnxLayer& layer) {
  layer.finish("Concat", layer.inputs(), {{"axis", int64_t{1}}});
}

void put_crop(OnnxLayer& layer) {
  const auto& crop = layer.definition<layers::Crop>();
  const auto [row, column] = crop.offset;
  layer.finish("Slice", {layer.input(), layer.integers({row, column}),
                         layer.integers({row + crop.output.height(), column + crop.output.width()}),
                         layer.integers({2, 3})});
}

/// Dropout has no effect in testing.
void put_dropout(OnnxLayer& layer) { layer.finish("Identity", layer.inputs()); }

void put_eltwise(OnnxLayer& layer) {
  using layers::EltwiseOperation;
  const EltwiseOperation operation = layer.definition<layers::Eltwise>().operation;
  if (operation == EltwiseOperation::kSum) return layer.finish("Sum", layer.inputs());
  if (operation == EltwiseOperation::kMaximum) return layer.finish("Max", layer.inputs());
  std::string product = layer.input(0);
  for (size_t i = 1; i + 1 < layer.input_count(); ++i)
    product = layer.put("Mul", {product, layer.input(i)});
  layer.finish("Mul", {product, layer.input(layer.input_count() - 1)});
}

void put_flatten(OnnxLayer& layer) {
  layer.finish("Flatten", layer.inputs(), {{"axis", int64_t{1}}});
}

void put_reduction(OnnxLayer& layer) {
  using layers::ReductionOperation;
  const auto& reduction = layer.definition<layers::Reduction>();
  const std::vector<int64_t> axes{1};
  const OnnxAttributes attributes{{"axes", axes}};
  const std::string values = features(layer);
  std::string result;
  switch (reduction.operation) {
    case ReductionOperation::kSum:
      result = layer.put("ReduceSum", {values, layer.integers(axes)});
      break;
    case ReductionOperation::kAbsoluteSum:
      result = layer.put("ReduceL1", {values}, attributes);
      break;
    case ReductionOperation::kSquares:
      result = layer.put("ReduceSumSquare", {values}, attributes);
      break;
    case ReductionOperation::kMean: result = layer.put("ReduceMean", {values}, attributes); break;
  }
  layer.finish("Mul", {result, layer.scalar(reduction.coefficient)});
}

/// In ONNX, an extent of 0 keeps the input's extent, here the number of samples.
void put_reshape(OnnxLayer& layer) {
  std::vector<int64_t> extents{0};
  for (int axis = 1; axis < layer.output_shape().rank(); ++axis)
    extents.push_back(layer.output_shape()[axis]);
  layer.finish("Reshape", {layer.input(), layer.integers(std::move(extents))});
}

void put_slice(OnnxLayer& layer) {
  const auto& slice = layer.definition<layers::Slice>();
  layer.finish("Slice", {layer.input(), layer.integers({slice.begin}), layer.integers({slice.end}),
                         layer.integers({1})});
}

void put_tile(OnnxLayer& layer) {
  std::vector<int64_t> repeats(static_cast<size_t>(layer.input_shape().rank()), 1);
  repeats[1] = layer.definition<layers::Tile>().tiles;
  layer.finish("Tile", {layer.input(), layer.integers(std::move(repeats))});
}

}  // namespace

OnnxRules onnx_shape_rules() {
  return {{"argmax", put_argmax},   {"concat", put_concat},       {"crop", put_crop},
          {"dropout", put_dropout}, {"eltwise", put_eltwise},     {"flatten", put_flatten},
          {"reshape", put_reshape}, {"reduction", put_reduction}, {"slice", put_slice},
          {"tile", put_tile}};
}

}  // namespace poseidon::exporter
