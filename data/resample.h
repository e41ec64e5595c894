#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/image.h"

namespace poseidon::data {

/// The pixels of the input that make each pixel of the output along one axis, and their weights.
/// They are bilinear; where the image shrinks, the triangle is widened to cover every input pixel
/// (antialias).
struct AxisTaps {
  std::vector<int32_t> first;  ///< the first input pixel of each output pixel
  std::vector<float> weights;  ///< `taps` for each output pixel, zero where there are fewer
  int32_t taps = 0;
  int32_t begin = 0, end = 0;  ///< input pixels used by any output pixel

  /// Output pixel i of `count` has its centre at input position origin + (i + 0.5) * step. Only
  /// input pixels low .. high - 1 are used: beyond them the edge counts.
  void make(double origin, double step, int64_t count, int64_t low, int64_t high);
};

/// Resamples an image of 1 or 3 channels into `out`, rows.first.size() x columns.first.size() x
/// channels. `scratch` is memory to be reused.
void resample(const Image& image, const AxisTaps& rows, const AxisTaps& columns,
              std::span<float> out, std::vector<float>& scratch);

/// A part of an image, whose bounds may lie within pixels.
struct Area {
  double top = 0, left = 0, height = 0, width = 0;
};

/// Makes an image of height x width of `area` of `image`.
void resize(const Image& image, const Area& area, int64_t height, int64_t width, Image& out);

}  // namespace poseidon::data
