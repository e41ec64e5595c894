#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/image.h"

namespace poseidon::data {

/// For one axis: the input pixels that contribute to each output pixel, and their weights. Weights
/// are bilinear, that is, a triangle filter. If the image shrinks, the filter is wider, so that it
/// covers every input pixel (antialiasing).
struct AxisTaps {
  std::vector<int32_t> first;  ///< the first input pixel of each output pixel
  std::vector<float> weights;  ///< `taps` weights per output pixel; unused ones are zero
  int32_t taps = 0;
  int32_t begin = 0, end = 0;  ///< output pixels use only input pixels begin .. end - 1

  /// Sets all members for `count` output pixels. Output pixel i has its center at the input
  /// position origin + (i + 0.5) * step. Uses only input pixels low .. high - 1; positions outside
  /// this range use the nearest of these pixels.
  void make(double origin, double step, int64_t count, int64_t low, int64_t high);
};

/// Resamples an image of 1 or 3 channels into `out`, of size rows.first.size() x
/// columns.first.size() x channels. The caller can reuse `scratch` for many images.
void resample(const Image& image, const AxisTaps& rows, const AxisTaps& columns,
              std::span<float> out, std::vector<float>& scratch);

/// A region of an image, in pixels. Its bounds may lie inside pixels or outside of the image.
struct Area {
  double top = 0, left = 0, height = 0, width = 0;
};

/// Resizes `area` of `image` to height x width.
void resize(const Image& image, const Area& area, int64_t height, int64_t width, Image& out);

}  // namespace poseidon::data
