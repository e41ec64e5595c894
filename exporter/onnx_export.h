#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "exporter/onnx_graph.h"
#include "exporter/trained_weights.h"

namespace poseidon::exporter {

struct OnnxExport {
  bool fold_batch_norm = false;
  std::string producer_version = "";
};

/// Creates an ONNX model of the network in test phase. Its outputs are the first inputs of the
/// losses (largest loss weight first), then the outputs that no layer reads. Omits losses,
/// accuracies, silence, and layers that only these need. The values of tensors are read from
/// `trained` when the encoded model is written, so `trained` must outlive the model and its
/// encoding. Throws ConfigError if a layer cannot be expressed in ONNX, or if the model would have
/// no output.
OnnxModel make_onnx_model(const TrainedWeights& trained, const OnnxExport& options);

/// Summary of the written file.
struct OnnxReport {
  std::vector<std::string> outputs;
  size_t nodes = 0, tensors = 0;
};

/// Writes the ONNX model to the file `output`. Throws ConfigError if the file would reach 2 GiB,
/// protobuf's limit. Throws RunError if the file cannot be written.
OnnxReport export_onnx(const TrainedWeights& trained, const OnnxExport& options,
                       const std::filesystem::path& output);

}  // namespace poseidon::exporter
