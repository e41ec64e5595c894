#pragma once

#include <array>
#include <cstdint>

#include "core/philox.h"
#include "data/image.h"
#include "data/sample.h"
#include "data/transform_config.h"

namespace poseidon::data {

/// Where a sample's output comes from: output pixel (y, x) is pixel (top + y, left + x) of the
/// source image after it was scaled by 1 / step; everything outside of `used` is black.
struct CropPlan {
  int64_t height = 0, width = 0;      ///< of the output
  double step_y = 1, step_x = 1;      ///< source pixels per output pixel
  double origin_y = 0, origin_x = 0;  ///< source position of the scaled image's corner
  int64_t scaled_height = 0, scaled_width = 0;
  int64_t top = 0, left = 0;  ///< below 0 where the output reaches into the padding
  Box used;                   ///< the part of the source that may be looked at

  bool resized() const { return step_y != 1 || step_x != 1; }
};

/// Decides by `random` (null in testing) which part of a source of height x width becomes the
/// output. Throws ConfigError, beginning with `name`, when it is too small for the crop.
CropPlan plan_crop(const TransformConfig& config, int64_t height, int64_t width,
                   RandomStream* random, const SampleName& name);

}  // namespace poseidon::data
