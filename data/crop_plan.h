#pragma once

#include <array>
#include <cstdint>

#include "core/philox.h"
#include "data/image.h"
#include "data/sample.h"
#include "data/transform_config.h"

namespace poseidon::data {

/// Maps the output pixels of a sample to the source image. The region `used` of the source is
/// scaled to scaled_height x scaled_width pixels. Output pixel (y, x) is pixel (top + y, left + x)
/// of this scaled image. Output pixels outside the scaled image are black.
struct CropPlan {
  int64_t height = 0, width = 0;      ///< size of the output, in pixels
  double step_y = 1, step_x = 1;      ///< source pixels per scaled pixel
  double origin_y = 0, origin_x = 0;  ///< source position of the scaled image's top left corner
  int64_t scaled_height = 0, scaled_width = 0;
  int64_t top = 0, left = 0;  ///< in scaled pixels; below 0: the output begins in the padding
  Box used;                   ///< region of the source that is scaled, in source pixels

  bool resized() const { return step_y != 1 || step_x != 1; }
};

/// Chooses the region of a height x width source that becomes the output. In testing, `random` is
/// null, and the region is centered. Throws ConfigError if the source, after resizing and padding,
/// is smaller than the crop. The message begins with `name`.
CropPlan plan_crop(const TransformConfig& config, int64_t height, int64_t width,
                   RandomStream* random, const SampleName& name);

}  // namespace poseidon::data
