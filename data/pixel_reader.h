#pragma once

#include "data/dataset.h"
#include "data/image_decoder.h"

namespace poseidon::data {

/// Reads the pixels of samples. Decodes image files.
class PixelReader {
 public:
  explicit PixelReader(const Dataset& dataset) : dataset_(dataset) {}

  /// Returns the pixels of sample `index`, valid until the next call. Throws CorruptSample, or
  /// ConfigError for a dataset of floats.
  const Image& read(int64_t index);
  /// Returns the label of the last sample read.
  int32_t label() const { return sample_.label; }
  /// Returns the last sample as the dataset stores it.
  const Sample& sample() const { return sample_; }

 private:
  const Dataset& dataset_;
  ImageDecoder decoder_;
  Sample sample_;
  Image image_;
};

}  // namespace poseidon::data
