#include "exporter/onnx_graph.h"

// Field numbers are those of the messages in onnx.proto.

namespace poseidon::exporter {

namespace {

WireWriter encode_attribute(const OnnxAttribute& attribute) {
  constexpr int64_t kFloat = 1, kInteger = 2, kIntegers = 7;
  constexpr uint32_t kType = 20;
  WireWriter out;
  out.text(1, attribute.name);
  if (const auto* number = std::get_if<double>(&attribute.value)) {
    out.single(2, static_cast<float>(*number));
    out.integer(kType, kFloat);
  } else if (const auto* integer = std::get_if<int64_t>(&attribute.value)) {
    out.integer(3, *integer);
    out.integer(kType, kInteger);
  } else {
    for (const int64_t value : std::get<std::vector<int64_t>>(attribute.value))
      out.integer(8, value);
    out.integer(kType, kIntegers);
  }
  return out;
}

WireWriter encode_node(const OnnxNode& node) {
  WireWriter out;
  for (const std::string& input : node.inputs) out.text(1, input);
  for (const std::string& output : node.outputs) out.text(2, output);
  out.text(3, node.name);
  out.text(4, node.type);
  for (const OnnxAttribute& attribute : node.attributes)
    out.message(5, encode_attribute(attribute));
  return out;
}

WireWriter encode_tensor(const OnnxTensor& tensor) {
  WireWriter out;
  uint64_t bytes = tensor.type == OnnxType::kFloat ? sizeof(float) : sizeof(int64_t);
  for (const int64_t extent : tensor.extents) {
    out.integer(1, extent);
    bytes *= static_cast<uint64_t>(extent);
  }
  out.integer(2, static_cast<int64_t>(tensor.type));
  out.text(8, tensor.name);
  out.bytes(9, bytes, tensor.fill);
  return out;
}

WireWriter encode_port(const OnnxPort& port) {
  WireWriter extents;
  for (int axis = 0; axis < port.shape.rank(); ++axis) {
    WireWriter extent;
    if (axis == 0)
      extent.text(2, "batch");
    else
      extent.integer(1, port.shape[axis]);
    extents.message(1, std::move(extent));
  }
  WireWriter tensor;
  tensor.integer(1, static_cast<int64_t>(OnnxType::kFloat));
  tensor.message(2, std::move(extents));
  WireWriter type;
  type.message(1, std::move(tensor));
  WireWriter out;
  out.text(1, port.name);
  out.message(2, std::move(type));
  if (!port.doc.empty()) out.text(3, port.doc);
  return out;
}

WireWriter encode_graph(const OnnxModel& model) {
  WireWriter out;
  for (const OnnxNode& node : model.nodes) out.message(1, encode_node(node));
  out.text(2, model.name);
  for (const OnnxTensor& tensor : model.tensors) out.message(5, encode_tensor(tensor));
  for (const OnnxPort& port : model.inputs) out.message(11, encode_port(port));
  for (const OnnxPort& port : model.outputs) out.message(12, encode_port(port));
  return out;
}

}  // namespace

WireWriter encode(const OnnxModel& model) {
  WireWriter opset;
  opset.text(1, "");
  opset.integer(2, kOnnxOpset);
  WireWriter out;
  out.integer(1, kOnnxIrVersion);
  out.text(2, "poseidon");
  out.text(3, model.producer_version);
  out.message(7, encode_graph(model));
  out.message(8, std::move(opset));
  for (const auto& [key, value] : model.metadata) {
    WireWriter entry;
    entry.text(1, key);
    entry.text(2, value);
    out.message(14, std::move(entry));
  }
  return out;
}

}  // namespace poseidon::exporter
