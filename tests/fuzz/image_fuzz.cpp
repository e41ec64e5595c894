// Arbitrary bytes as an image file: the reader throws CorruptSample, or returns an image of the
// size in the header. Decodes the whole image and a part, at full and at reduced size.

#include <cstdint>
#include <cstdlib>

#include "data/image_decoder.h"
#include "data/sample.h"

namespace {

using namespace poseidon::data;

/// Larger images are valid, but decoding them is slow.
constexpr int64_t kMaxPixels = 1 << 20;

void decode(std::span<const std::byte> bytes, ImageDecoder& decoder) {
  const ImageHeader header = decoder.open(bytes, "f");
  if (header.height * header.width > kMaxPixels) return;
  Image image;
  decoder.decode_all(3, image);
  if (image.height != header.height || image.width != header.width) std::abort();

  decoder.open(bytes, "f");
  const Box box{header.height / 3, header.width / 3, (header.height + 2) / 3,
                (header.width + 2) / 3};
  DecodedPart part;
  decoder.decode(box, 2.5, 1, part);
  const auto reaches = [&](int64_t begin, int64_t extent, double part_begin, int64_t part_extent) {
    const double from = static_cast<double>(begin) * part.scale;
    const double to = static_cast<double>(begin + extent) * part.scale;
    return part_begin <= from && part_begin + static_cast<double>(part_extent) >= to;
  };
  if (!reaches(box.top, box.height, part.top, part.image.height)) std::abort();
  if (!reaches(box.left, box.width, part.left, part.image.width)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static ImageDecoder decoder;
  try {
    decode({reinterpret_cast<const std::byte*>(data), size}, decoder);
  } catch (const CorruptSample&) {
  }
  return 0;
}
