#include "data/pixel_reader.h"

namespace poseidon::data {

const Image& PixelReader::read(int64_t index) {
  dataset_.read(index, sample_);
  if (sample_.form == SampleForm::kEncoded) {
    const ImageHeader header = decoder_.open(sample_.bytes, dataset_.name(index));
    decoder_.decode_all(static_cast<int>(header.channels), image_);
  } else if (sample_.form == SampleForm::kPixels) {
    image_.reshape(sample_.height, sample_.width, sample_.channels);
    const auto* pixels = reinterpret_cast<const uint8_t*>(sample_.bytes.data());
    image_.pixels.assign(pixels, pixels + sample_.bytes.size());
  } else {
    throw ConfigError(text(dataset_.description().source, ": expected images, got floats"));
  }
  return image_;
}

}  // namespace poseidon::data
