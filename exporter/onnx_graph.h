#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/shape.h"
#include "exporter/wire_writer.h"

/// An ONNX model (https://onnx.ai) in memory, and its encoding.
namespace poseidon::exporter {

/// Versions of the operator set and of the file format.
inline constexpr int64_t kOnnxOpset = 17, kOnnxIrVersion = 8;

using OnnxValue = std::variant<int64_t, double, std::vector<int64_t>>;

struct OnnxAttribute {
  std::string name;
  OnnxValue value;
};
using OnnxAttributes = std::vector<OnnxAttribute>;

struct OnnxNode {
  std::string type, name;
  std::vector<std::string> inputs, outputs;
  OnnxAttributes attributes;
};

enum class OnnxType : int64_t { kFloat = 1, kInt64 = 7 };

/// A tensor stored in the model.
struct OnnxTensor {
  std::string name;
  OnnxType type = OnnxType::kFloat;
  std::vector<int64_t> extents;
  WireWriter::Fill fill;  ///< writes the values, little-endian
};

/// An input or output of the model, with float values. The first extent is the variable number of
/// samples.
struct OnnxPort {
  std::string name;
  Shape shape;
  std::string doc = "";
};

struct OnnxModel {
  std::string name, producer_version;
  std::vector<OnnxNode> nodes;
  std::vector<OnnxTensor> tensors;
  std::vector<OnnxPort> inputs, outputs;
  std::vector<std::pair<std::string, std::string>> metadata = {};
};

/// Encodes an ONNX file. The result calls OnnxTensor::fill when it is written, so data that these
/// functions use must outlive the result.
WireWriter encode(const OnnxModel& model);

}  // namespace poseidon::exporter
