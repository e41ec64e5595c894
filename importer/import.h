#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/extras.h"
#include "core/log.h"
#include "importer/caffe_data.h"

namespace poseidon::importer {

/// What poseidon-import is asked for.
struct CaffeImport {
  std::filesystem::path prototxt;
  std::filesystem::path solver, weights;  ///< "" for none
  std::filesystem::path output;           ///< a folder, new or empty
  std::optional<SampleShape> input;       ///< where the prototxt does not tell it
  /// Shapes of what data layers give beside images and labels.
  std::vector<Extra> extras = {};
  bool bgr_to_rgb = false;
  bool skip_unknown = false;
  bool force = false;  ///< `output` may be an earlier import, which is overwritten
};

/// What was written.
struct ImportReport {
  std::string network;  ///< its name
  size_t layers = 0;
  int64_t parameters = 0;
  bool job = false;
  size_t tensors = 0;  ///< of weights.safetensors; 0: there is none
};

/// Writes network.json, and job.json and weights.safetensors where there is something to make them
/// of. Nothing is written before all is read and checked. What has no equal is said to `log`.
/// Throws ConfigError with file and place, RunError where files cannot be written.
ImportReport import_caffe(const CaffeImport& asked, Log& log);

/// "3x227x227"; throws ConfigError for anything else.
SampleShape parse_sample_shape(const std::string& given);

}  // namespace poseidon::importer
