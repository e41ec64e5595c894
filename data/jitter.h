#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace poseidon::data {

enum class JitterStep : uint8_t { kBrightness, kContrast, kSaturation, kHue };

/// What is drawn for one sample; these leave it as it is.
struct JitterFactors {
  float brightness = 1, contrast = 1, saturation = 1;
  float hue = 0;  ///< in turns
  std::array<JitterStep, 4> order{JitterStep::kBrightness, JitterStep::kContrast,
                                  JitterStep::kSaturation, JitterStep::kHue};
};

/// Changes interleaved pixels of 0 to 255, in the order given: all values times `brightness`;
/// distances from the mean grey of the image times `contrast`; with 3 channels, distances from the
/// pixel's own grey times `saturation`, and hues turned by `hue`, at equal largest and smallest
/// values of the pixel. Values are kept in 0 to 255 after each step.
void jitter(std::span<float> pixels, int64_t channels, const JitterFactors& factors);

}  // namespace poseidon::data
