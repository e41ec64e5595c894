#include "data/jitter.h"

#include <algorithm>
#include <cmath>

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

void change_brightness(std::span<float> pixels, float factor) {
  for (float& value : pixels) value = kept(value * factor);
}

void change_contrast(std::span<float> pixels, int64_t channels, float factor) {
  const float middle = mean_grey(pixels, channels);
  for (float& value : pixels) value = kept(middle + (value - middle) * factor);
}

void change_saturation(std::span<float> pixels, float factor) {
  for (size_t i = 0; i < pixels.size(); i += 3) {
    const float own = grey(&pixels[i]);
    for (size_t c = 0; c < 3; ++c) pixels[i + c] = kept(own + (pixels[i + c] - own) * factor);
  }
}

/// Returns the hue as a position on a color circle of length 6: red is at 0, green at 2, blue at 4.
/// `chroma` must be above 0.
float side_of(const float* rgb, float largest, float chroma) {
  if (largest == rgb[0]) return (rgb[1] - rgb[2]) / chroma;
  if (largest == rgb[1]) return 2 + (rgb[2] - rgb[0]) / chroma;
  return 4 + (rgb[0] - rgb[1]) / chroma;
}

void turn_hue(std::span<float> pixels, float turns) {
  // When the position on the color circle increases, red begins to fall at 1, green at 3, and blue
  // at 5. These offsets move each of these positions to 0 (modulo 6).
  constexpr std::array<float, 3> kOpposite{5, 3, 1};
  for (size_t i = 0; i < pixels.size(); i += 3) {
    float* rgb = &pixels[i];
    const float largest = std::max({rgb[0], rgb[1], rgb[2]});
    const float chroma = largest - std::min({rgb[0], rgb[1], rgb[2]});
    if (chroma == 0) continue;
    const float side = side_of(rgb, largest, chroma) + 6 * turns;
    for (size_t c = 0; c < 3; ++c) {
      const float at = side + kOpposite[c];
      const float k = at - 6 * std::floor(at / 6);
      rgb[c] = kept(largest - chroma * std::clamp(std::min(k, 4 - k), 0.0f, 1.0f));
    }
  }
}

void make_step(JitterStep step, std::span<float> pixels, int64_t channels,
               const JitterFactors& factors) {
  switch (step) {
    case JitterStep::kBrightness:
      if (factors.brightness != 1) change_brightness(pixels, factors.brightness);
      return;
    case JitterStep::kContrast:
      if (factors.contrast != 1) change_contrast(pixels, channels, factors.contrast);
      return;
    case JitterStep::kSaturation:
      if (factors.saturation != 1 && channels == 3) change_saturation(pixels, factors.saturation);
      return;
    case JitterStep::kHue:
      if (factors.hue != 0 && channels == 3) turn_hue(pixels, factors.hue);
      return;
  }
}

}  // namespace

void jitter(std::span<float> pixels, int64_t channels, const JitterFactors& factors) {
  for (const JitterStep step : factors.order) make_step(step, pixels, channels, factors);
}

}  // namespace poseidon::data
