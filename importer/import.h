#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/auxiliary_input.h"
#include "core/log.h"
#include "importer/caffe_data.h"

namespace poseidon::importer {

/// Options of `poseidon-import caffe`.
struct CaffeImport {
  std::filesystem::path prototxt;
  std::filesystem::path solver, weights;  ///< "": none
  std::filesystem::path output;           ///< folder, new or empty
  std::optional<SampleShape> input;       ///< required if the prototxt does not state the shape
  /// Auxiliary inputs whose shapes the user states: tops of data layers and network inputs other
  /// than images and labels.
  std::vector<AuxiliaryInput> extras = {};
  bool bgr_to_rgb = false;    ///< reverse the channels of means and of weights that read images
  bool skip_unknown = false;  ///< warn of layers and fields without equivalent, and omit them
  bool force = false;         ///< overwrite an earlier import in `output`
};

/// Summary of the written files.
struct ImportReport {
  std::string network;  ///< name of the network
  size_t layers = 0;
  int64_t parameters = 0;
  bool job = false;    ///< whether job.json was written
  size_t tensors = 0;  ///< number of tensors in weights.safetensors; 0: file not written
};

/// Imports a Caffe network. Writes network.json, and also job.json, weights.safetensors and
/// mean.pfm if there are sources for them. Reads and checks all input before it writes a file. Logs
/// differences between Caffe and Poseidon to `log`. Throws ConfigError with file and position if
/// the input is invalid. Without `force`, throws ConfigError if `output` is not empty. Throws
/// RunError if files cannot be written.
ImportReport import_caffe(const CaffeImport& options, Log& log);

/// Parses CHANNELSxHEIGHTxWIDTH, such as "3x227x227". Throws ConfigError for any other text.
SampleShape parse_sample_shape(const std::string& given);

}  // namespace poseidon::importer
