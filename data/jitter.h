#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace poseidon::data {

enum class JitterStep : uint8_t { kBrightness, kContrast, kSaturation, kHue };

/// Random factors of one sample. The default values leave the sample unchanged.
struct JitterFactors {
  float brightness = 1, contrast = 1, saturation = 1;
  float hue = 0;  ///< in turns of the color circle
  std::array<JitterStep, 4> order{JitterStep::kBrightness, JitterStep::kContrast,
                                  JitterStep::kSaturation, JitterStep::kHue};
};

/// Changes interleaved pixels in the range 0 to 255. The steps run in the order of `factors.order`:
/// - brightness: multiplies all values by `brightness`
/// - contrast: multiplies the distances from the image's mean gray by `contrast`
/// - saturation (3 channels): multiplies the distances from the pixel's gray by `saturation`
/// - hue (3 channels): rotates the hue by `hue`; keeps the pixel's largest and smallest value
///
/// Each step clamps the values to 0 to 255.
void jitter(std::span<float> pixels, int64_t channels, const JitterFactors& factors);

}  // namespace poseidon::data
