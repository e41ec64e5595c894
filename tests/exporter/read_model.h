#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// ONNX files read by the importer's reader of protobuf, which knows nothing of who wrote them.
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
  /// "Relu(input) -> a": as tests/reference/exchange_check.py writes them.
  std::vector<std::string> inputs, nodes, outputs;
  std::vector<ReadTensor> tensors;

  /// All of it, a line each.
  std::vector<std::string> lines() const;
  const ReadTensor& tensor(const std::string& name) const;
};

ReadModel read_model(std::span<const std::byte> bytes);

}  // namespace poseidon::exporter::made
