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

/// A part of an image, possibly decoded at a smaller size. Position x of the whole image, in pixels
/// from its left edge, is at x * scale - left in `image`. Position y is at y * scale - top.
struct DecodedPart {
  Image image;
  double scale = 1;
  double top = 0, left = 0;  ///< whole numbers if the scale is 1
};

/// Decodes image files in memory. It reuses its buffers between images, so each thread needs a
/// separate decoder.
class ImageDecoder {
 public:
  ImageDecoder();
  ~ImageDecoder();

  /// Reads the header of the image in `bytes`, which must stay valid until the next call of open().
  /// If the EXIF orientation of a JPEG is applied, all sizes, boxes and pixels refer to the upright
  /// image. Throws CorruptSample if the format is not supported, the header is damaged, or the
  /// image is too large. The message begins with `name`.
  ImageHeader open(std::span<const std::byte> bytes, const std::string& name,
                   OrientationRule rule = OrientationRule::kApply);

  /// Decodes at least `box` of the opened image into 1 (gray) or 3 (RGB) channels. Decodes only the
  /// needed part of a JPEG, and may reduce its size by a factor of at most `shrink` (at least 1).
  /// Decodes other formats completely, at full size. Throws CorruptSample if the data are damaged
  /// or the decoded part exceeds kMaxImagePixels.
  void decode(const Box& box, double shrink, int channels, DecodedPart& out);

  /// Decodes the whole opened image at full size.
  void decode_all(int channels, Image& out);

 private:
  void decode_stored(const Box& box, double shrink, int channels, DecodedPart& out);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace poseidon::data
