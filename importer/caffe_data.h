#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "importer/caffe_network.h"

namespace poseidon::importer {

/// The samples and the preprocessing that a Caffe data layer describes. Defaults of fields that the
/// layer does not set: 1 for `scale`, true for `color` of ImageData, else 0, false or empty.
struct CaffeData {
  const CaffeLayer* layer = nullptr;
  std::string source;
  int64_t batch = 0;
  std::vector<int64_t> extents;  ///< extents of a batch; empty: not stated
  int64_t crop = 0;              ///< side of the square crop, in pixels
  bool mirror = false;
  std::vector<double> means;
  std::string mean_file;
  double scale = 1;
  bool color = false, gray = false;
  std::array<int64_t, 2> resize{0, 0};

  /// Returns the position of a preprocessing field, in "transform_param" or in the message of the
  /// layer type.
  Place place_of_transform(std::string_view field) const;
};

/// Reads all fields of a data layer of any type.
CaffeData read_data_layer(const CaffeLayer& layer, Remarks& remarks);

/// Returns the extents of a batch for each top of the layer. The extents of a top are empty if the
/// layer does not state them.
std::vector<std::vector<int64_t>> extents_of_tops(const CaffeLayer& layer);

/// Channels, height and width.
using SampleShape = std::array<int64_t, 3>;

/// Returns the shape that the network's first input states for a sample. Without inputs, derives
/// the shape from the extents of the data layer `data`, or from its crop or new size and its
/// channels. Throws ConfigError if the file does not state the shape; the message suggests --input.
SampleShape sample_shape(const CaffeNetwork& network, const std::optional<CaffeData>& data);

}  // namespace poseidon::importer
