#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/extras.h"
#include "core/shape.h"
#include "data/sample.h"

namespace poseidon::data {

/// What is known of a dataset without reading its pixels.
struct DatasetDescription {
  std::string source;                ///< for messages: a path, or "digits (generated)"
  int64_t samples = 0;               ///< at least 1
  std::vector<std::string> classes;  ///< names; a label is an index into them, checked on reading
  bool floats = false;               ///< samples are SampleForm::kFloats
  Shape shape;  ///< channels, height, width where all samples agree; rank 0 where they may differ
  /// SHA-256 over the number of samples, the classes, and the index (names, sizes, labels) or a
  /// record set's checksums; equal wherever the same data lie. 64 hexadecimal digits.
  std::string fingerprint;
  /// Tensors of floats that every sample has beside its image and label.
  std::vector<Extra> extras;
  std::vector<std::string> remarks;  ///< what a person should know of it, a sentence each
};

/// Labelled images with random access. All calls are thread-safe.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual const DatasetDescription& description() const = 0;
  /// Fills `sample` with sample `index` (0 <= index < samples). Throws CorruptSample when this
  /// sample cannot be used, RunError when the world failed.
  virtual void read(int64_t index, Sample& sample) const = 0;
  /// The bytes of samples, or of an index of them, that it holds in memory.
  virtual size_t memory_bytes() const { return 0; }
  /// The sample's name for messages: "train/cat/0001.jpg", "train-images-idx3-ubyte #17".
  virtual std::string name(int64_t index) const = 0;

  int64_t size() const { return description().samples; }
  const std::vector<std::string>& classes() const { return description().classes; }
  const std::string& fingerprint() const { return description().fingerprint; }
};

}  // namespace poseidon::data
