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

/// A safetensors file of features. For each layer it has an fp32 tensor with the layer's name and
/// the shape (samples, channels, height, width). The tensor "label" (I32) has the samples' labels.
/// The file is written batch by batch, so memory holds only one batch. It has a temporary name
/// until commit().
class FeatureFile {
 public:
  /// `samples`: number of samples of the whole file. All functions throw RunError if the file
  /// cannot be written.
  FeatureFile(const std::filesystem::path& path, const std::vector<Feature>& features,
              int64_t samples);

  /// Appends values of the next samples. `feature` is an index of the constructor's `features`.
  void add(size_t feature, std::span<const float> values);
  /// Appends the labels of the next samples.
  void add_labels(std::span<const int32_t> labels);
  /// Renames the complete file to its path. Requires the values and labels of all samples.
  void commit();

 private:
  /// File offsets of a tensor: the next byte to write, and the end.
  struct Region {
    uint64_t next = 0, end = 0;
  };
  void add(Region& region, std::span<const std::byte> bytes);

  AtomicFile file_;
  std::vector<Region> regions_;  ///< one for each feature, then one for the labels
};

}  // namespace poseidon::trainer
