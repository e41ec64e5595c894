#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "data/image.h"
#include "data/orientation.h"

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
  double top = 0, left = 0;  ///< whole numbers where the scale is 1
};

/// Decodes image files in memory. It keeps its buffers between images, so each thread needs one of
/// its own.
class ImageDecoder {
 public:
  ImageDecoder();
  ~ImageDecoder();

  /// Reads the header of the image in `bytes`, which must stay until the next call of open(). Where
  /// the orientation of a JPEG is applied, height and width are those of the upright image, and so
  /// are boxes and pixels below. Throws CorruptSample, beginning with `name`, for what is no image,
  /// or one that is too large.
  ImageHeader open(std::span<const std::byte> bytes, const std::string& name,
                   OrientationRule rule = OrientationRule::kApply);

  /// Decodes at least `box` of the opened image into 1 (grey) or 3 (RGB) channels, by up to
  /// `shrink` (at least 1) smaller where the format can do that for less work. Only what is needed
  /// of a JPEG is decoded; of other formats all is. Throws CorruptSample, also where that would be
  /// more than kMostImagePixels.
  void decode(const Box& box, double shrink, int channels, DecodedPart& out);

  /// The whole opened image, in its own size.
  void decode_all(int channels, Image& out);

 private:
  void decode_stored(const Box& box, double shrink, int channels, DecodedPart& out);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace poseidon::data
