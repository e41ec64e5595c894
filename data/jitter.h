#pragma once

#include <cstdint>
#include <span>

namespace poseidon::data {

/// Factors drawn for one sample; 1 leaves it as it is.
struct JitterFactors {
  float brightness = 1, contrast = 1, saturation = 1;
};

/// Changes interleaved pixels of 0 to 255: all values times `brightness`; distances from the mean
/// grey of the image times `contrast`; distances from the pixel's own grey times `saturation` (3
/// channels only). Values are kept in 0 to 255 after each of the three.
void jitter(std::span<float> pixels, int64_t channels, JitterFactors factors);

}  // namespace poseidon::data
