#pragma once

#include "data/dataset.h"
#include "data/image_decoder.h"

namespace poseidon::data {

/// A sample's pixels, decoded where it is an image file.
class PixelReader {
 public:
  explicit PixelReader(const Dataset& dataset) : dataset_(dataset) {}

  /// Valid until the next call. Throws CorruptSample, and ConfigError for a dataset of floats.
  const Image& read(int64_t index);
  /// Of the sample that was read last.
  int32_t label() const { return sample_.label; }
  /// The same, as the dataset keeps it.
  const Sample& sample() const { return sample_; }

 private:
  const Dataset& dataset_;
  ImageDecoder decoder_;
  Sample sample_;
  Image image_;
};

}  // namespace poseidon::data
