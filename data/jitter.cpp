#include "data/jitter.h"

#include <algorithm>

namespace poseidon::data {

namespace {

float kept(float value) { return std::clamp(value, 0.0f, 255.0f); }

float grey(const float* rgb) { return 0.299f * rgb[0] + 0.587f * rgb[1] + 0.114f * rgb[2]; }

float mean_grey(std::span<const float> pixels, int64_t channels) {
  double sum = 0;
  const size_t step = static_cast<size_t>(channels);
  for (size_t i = 0; i < pixels.size(); i += step)
    sum += static_cast<double>(channels == 3 ? grey(&pixels[i]) : pixels[i]);
  return static_cast<float>(sum / static_cast<double>(pixels.size() / step));
}

}  // namespace

void jitter(std::span<float> pixels, int64_t channels, JitterFactors factors) {
  if (factors.brightness != 1)
    for (float& value : pixels) value = kept(value * factors.brightness);
  if (factors.contrast != 1) {
    const float middle = mean_grey(pixels, channels);
    for (float& value : pixels) value = kept(middle + (value - middle) * factors.contrast);
  }
  if (factors.saturation == 1 || channels != 3) return;
  for (size_t i = 0; i < pixels.size(); i += 3) {
    const float own = grey(&pixels[i]);
    for (size_t c = 0; c < 3; ++c)
      pixels[i + c] = kept(own + (pixels[i + c] - own) * factors.saturation);
  }
}

}  // namespace poseidon::data
