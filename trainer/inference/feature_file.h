#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/file.h"
#include "core/shape.h"

namespace poseidon::trainer {

/// The output of a layer for one sample: channels x height x width values.
struct Feature {
  std::string layer;
  Shape shape;
};

/// A safetensors file of features. For each layer it has a tensor with the layer's name, (samples,
/// channels, height, width) in fp32. "label" has the samples' labels (I32). The file is written
/// batch by batch, so memory holds only one batch. The file gets its name when it is complete.
class FeatureFile {
 public:
  /// Throws RunError if the file cannot be written, as do the other functions.
  FeatureFile(const std::filesystem::path& path, const std::vector<Feature>& features,
              int64_t samples);

  /// Appends values of the next samples of feature `feature`.
  void add(size_t feature, std::span<const float> values);
  /// Appends labels of the next samples.
  void add_labels(std::span<const int32_t> labels);
  /// Completes the file after the last sample.
  void commit();

 private:
  /// File offsets of a tensor: its next byte, and its end.
  struct Region {
    uint64_t next = 0, end = 0;
  };
  void add(Region& region, std::span<const std::byte> bytes);

  AtomicFile file_;
  std::vector<Region> regions_;  ///< one for each feature, then one for the labels
};

}  // namespace poseidon::trainer
