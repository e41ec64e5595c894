#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// Reads ONNX files with the importer's protobuf reader, which is independent of the exporter.
namespace poseidon::exporter::made {

struct ReadTensor {
  std::string name;
  int64_t type = 0;
  std::vector<int64_t> extents;
  std::vector<std::byte> values;

  std::vector<float> floats() const;
  std::vector<int64_t> integers() const;
};

struct ReadModel {
  int64_t ir_version = 0, opset = 0;
  std::string producer, graph;
  /// "Relu(input) -> a": the format of tests/reference/exchange_check.py.
  std::vector<std::string> inputs, nodes, outputs;
  std::vector<ReadTensor> tensors;

  /// The whole model as lines.
  std::vector<std::string> lines() const;
  const ReadTensor& tensor(const std::string& name) const;
};

ReadModel read_model(std::span<const std::byte> bytes);

}  // namespace poseidon::exporter::made
