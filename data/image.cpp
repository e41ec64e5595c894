#include "data/image.h"

#include <algorithm>

#include "core/error.h"

namespace poseidon::data {

namespace {

uint8_t grey(const uint8_t* rgb) {
  return static_cast<uint8_t>((rgb[0] * 299 + rgb[1] * 587 + rgb[2] * 114 + 500) / 1000);
}

}  // namespace

void convert_channels(const uint8_t* in, int64_t channels, int64_t wanted, Image& out) {
  out.reshape(out.height, out.width, wanted);
  const size_t count = static_cast<size_t>(out.height * out.width);
  if (channels == wanted) {
    std::copy_n(in, out.pixels.size(), out.pixels.begin());
  } else if (wanted == 3) {
    check(channels == 1, "conversion to color requires 1 channel");
    for (size_t i = 0; i < 3 * count; ++i) out.pixels[i] = in[i / 3];
  } else {
    check(channels == 3 && wanted == 1, "conversion to gray requires 3 channels");
    for (size_t i = 0; i < count; ++i) out.pixels[i] = grey(in + 3 * i);
  }
}

}  // namespace poseidon::data
