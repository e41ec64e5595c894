#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/file.h"
#include "core/shape.h"

namespace poseidon::trainer {

/// What a layer gives of each sample: channels x height x width values.
struct Feature {
  std::string layer;
  Shape shape;
};

/// A safetensors file of features: by the name of each layer a tensor (samples, channels, height,
/// width) of fp32, and "label", the samples' labels (I32). It is written in place, batch by batch,
/// so no more than a batch is in memory, and appears when it is whole.
class FeatureFile {
 public:
  /// Throws RunError when it cannot be written, here and further on.
  FeatureFile(const std::filesystem::path& path, const std::vector<Feature>& features,
              int64_t samples);

  /// The next samples' values of a feature, by its index.
  void add(size_t feature, std::span<const float> values);
  /// The next samples' labels.
  void add_labels(std::span<const int32_t> labels);
  /// All samples have come.
  void commit();

 private:
  /// Where the next bytes of a tensor go, up to its end.
  struct Region {
    uint64_t next = 0, end = 0;
  };
  void add(Region& region, std::span<const std::byte> bytes);

  AtomicFile file_;
  std::vector<Region> regions_;  ///< of the features, then of the labels
};

}  // namespace poseidon::trainer
