#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/auxiliary_input.h"
#include "core/shape.h"
#include "data/sample.h"

namespace poseidon::data {

/// Properties of a dataset that are known without reading its pixels.
struct DatasetDescription {
  std::string source;                ///< path, or "digits (generated)"; used in messages
  int64_t samples = 0;               ///< at least 1
  std::vector<std::string> classes;  ///< names; a label is an index into them
  bool floats = false;               ///< samples are SampleForm::kFloats
  Shape shape;  ///< channels, height, width if known to be equal for all samples; else rank 0
  /// SHA-256 as 64 hexadecimal digits, equal for copies of the same data. Covers the number of
  /// samples and the classes. Image folders add the names, sizes and labels of the files. Record
  /// sets add the checksums of the shards. Datasets in memory add the labels. Generated datasets
  /// add their parameters.
  std::string fingerprint;
  /// Auxiliary inputs: float tensors of each sample, in addition to its image and label.
  std::vector<AuxiliaryInput> extras;
  std::vector<std::string> remarks;  ///< notes for the user, one sentence each
};

/// Labeled images, or labeled float tensors, with random access. All methods are thread-safe.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual const DatasetDescription& description() const = 0;
  /// Reads sample `index` (0 <= index < samples) into `sample`. Throws CorruptSample if this sample
  /// cannot be used. Throws RunError if the read fails for another reason.
  virtual void read(int64_t index, Sample& sample) const = 0;
  /// Returns the bytes of memory for samples that are stored in memory, or for the index of a
  /// record set; else 0.
  virtual size_t memory_bytes() const { return 0; }
  /// Returns the sample's name for messages: "train/cat/0001.jpg", "train-images-idx3-ubyte #17".
  virtual std::string name(int64_t index) const = 0;

  int64_t size() const { return description().samples; }
  const std::vector<std::string>& classes() const { return description().classes; }
  const std::string& fingerprint() const { return description().fingerprint; }
};

}  // namespace poseidon::data
