#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "data/image.h"

namespace poseidon::data {

enum class ImageFormat : uint8_t { kJpeg, kPng, kBmp, kPnm };

struct ImageHeader {
  ImageFormat format = ImageFormat::kJpeg;
  int64_t height = 0, width = 0, channels = 0;
};

/// Part of an image, perhaps at a fraction of its size. Position x of the whole image (in pixels,
/// from its left edge) lies at x * scale - left in `image`, and y at y * scale - top.
struct DecodedPart {
  Image image;
  double scale = 1;
  int64_t top = 0, left = 0;
};

/// Decodes image files in memory. It keeps its buffers between images, so each thread needs one of
/// its own.
class ImageDecoder {
 public:
  ImageDecoder();
  ~ImageDecoder();

  /// Reads the header of the image in `bytes`, which must stay until the next call of open().
  /// Throws CorruptSample, beginning with `name`, for what is no image, or one that is too large.
  ImageHeader open(std::span<const std::byte> bytes, const std::string& name);

  /// Decodes at least `box` of the opened image into 1 (grey) or 3 (RGB) channels, by up to
  /// `shrink` (at least 1) smaller where the format can do that for less work. Only what is needed
  /// of a JPEG is decoded; of other formats all is. Throws CorruptSample.
  void decode(const Box& box, double shrink, int channels, DecodedPart& out);

  /// The whole opened image, in its own size.
  void decode_all(int channels, Image& out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace poseidon::data
