#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "importer/caffe_network.h"

namespace poseidon::importer {

/// What a data layer says of its samples and of what is done to them; 0 and "" for what it does not
/// say.
struct CaffeData {
  const CaffeLayer* layer = nullptr;
  std::string source;
  int64_t batch = 0;
  std::vector<int64_t> extents;  ///< of a batch, where the layer tells them
  int64_t crop = 0;
  bool mirror = false;
  std::vector<double> means;
  std::string mean_file;
  double scale = 1;
  bool color = false, gray = false;
  std::array<int64_t, 2> resize{0, 0};

  Place place_of_transform(std::string_view field) const;
};

/// Reads all fields of a data layer of any kind.
CaffeData read_data_layer(const CaffeLayer& layer, Remarks& remarks);

/// The extents of a batch of each of its tops, as far as it tells them; one that has none is empty.
std::vector<std::vector<int64_t>> extents_of_tops(const CaffeLayer& layer);

/// Channels, height and width.
using SampleShape = std::array<int64_t, 3>;

/// Of the network's input: from what its input or data layer tells. Throws ConfigError, which names
/// --input, where these do not tell it.
SampleShape sample_shape(const CaffeNetwork& network, const std::optional<CaffeData>& data);

}  // namespace poseidon::importer
