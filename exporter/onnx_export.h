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

/// The network in test phase: what losses score are outputs, the main one first, and then what no
/// layer reads. Losses, accuracies, and what only they need, are left out. Values are read when the
/// model is written, so `trained` must outlive it. Throws ConfigError that names a layer that ONNX
/// cannot say.
OnnxModel make_onnx_model(const TrainedWeights& trained, const OnnxExport& asked);

/// What was written.
struct OnnxReport {
  std::vector<std::string> outputs;
  size_t nodes = 0, tensors = 0;
};

/// Throws ConfigError where the file would have 2 GiB, protobuf's limit; RunError where it cannot
/// be written.
OnnxReport export_onnx(const TrainedWeights& trained, const OnnxExport& asked,
                       const std::filesystem::path& output);

}  // namespace poseidon::exporter
