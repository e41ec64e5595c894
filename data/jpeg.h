#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/image.h"
#include "data/image_decoder.h"

namespace poseidon::data {

/// Decodes JPEG files with libjpeg-turbo. Each thread needs a separate decoder.
class JpegDecoder {
 public:
  JpegDecoder();
  ~JpegDecoder();

  /// Reads the header and returns height, width, channels (1 or 3). `bytes` must stay valid until
  /// the next call of open(). Throws CorruptSample if the header is damaged.
  std::array<int64_t, 3> open(std::span<const std::byte> bytes, const std::string& name);
  /// Decodes a part like ImageDecoder::decode(), but does not apply the EXIF orientation. Converts
  /// CMYK images to RGB or gray.
  void decode(const Box& box, double shrink, int channels, DecodedPart& out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Encodes gray or RGB pixels as a JPEG file of `quality` 1 to 100.
std::vector<std::byte> encode_jpeg(const Image& image, int quality);

}  // namespace poseidon::data
