#include "data/resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.h"

namespace poseidon::data {

namespace {

/// A vector of four floats; the compiler uses vector instructions if the target has them.
using Lanes = float __attribute__((vector_size(16)));
constexpr size_t kLanes = 4;

Lanes load(const float* from) {
  Lanes lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

/// Resamples vertically: writes the weighted sum of the input rows for output row `row`. Computes
/// only the input columns columns.begin .. columns.end - 1.
void sum_rows(const Image& image, const AxisTaps& rows, size_t row, const AxisTaps& columns,
              std::span<float> out) {
  const size_t offset = static_cast<size_t>(columns.begin * image.channels);
  const float* weights = &rows.weights[row * static_cast<size_t>(rows.taps)];
  std::fill(out.begin(), out.end(), 0.0f);
  for (int32_t tap = 0; tap < rows.taps; ++tap) {
    const float weight = weights[tap];
    if (weight == 0) continue;
    const uint8_t* in = image.row(rows.first[row] + tap) + offset;
    for (size_t i = 0; i < out.size(); ++i) out[i] += weight * static_cast<float>(in[i]);
  }
}

/// Resamples a row horizontally. Uses three of four lanes: the fourth lane reads a value of the
/// next pixel, and its result is dropped.
void sum_columns_rgb(const float* row, const AxisTaps& columns, float* out) {
  for (size_t x = 0; x < columns.first.size(); ++x) {
    const float* in = row + 3 * (columns.first[x] - columns.begin);
    const float* weights = &columns.weights[x * static_cast<size_t>(columns.taps)];
    Lanes sum{};
    for (int32_t tap = 0; tap < columns.taps; ++tap) sum += weights[tap] * load(in + 3 * tap);
    for (size_t c = 0; c < 3; ++c) out[3 * x + c] = sum[c];
  }
}

void sum_columns_grey(const float* row, const AxisTaps& columns, float* out) {
  for (size_t x = 0; x < columns.first.size(); ++x) {
    const float* in = row + (columns.first[x] - columns.begin);
    const float* weights = &columns.weights[x * static_cast<size_t>(columns.taps)];
    float sum = 0;
    for (int32_t tap = 0; tap < columns.taps; ++tap) sum += weights[tap] * in[tap];
    out[x] = sum;
  }
}

}  // namespace

void AxisTaps::make(double origin, double step, int64_t count, int64_t low, int64_t high) {
  check(low < high && count > 0 && step > 0, "nothing to resample");
  const double reach = std::max(step, 1.0);
  taps = std::min(static_cast<int32_t>(2 * std::ceil(reach)) + 1, static_cast<int32_t>(high - low));
  first.resize(static_cast<size_t>(count));
  weights.assign(static_cast<size_t>(count * taps), 0.0f);
  for (int64_t i = 0; i < count; ++i) {
    const double center = origin + (static_cast<double>(i) + 0.5) * step;
    const double last_begin = static_cast<double>(high - taps);
    const int64_t begin_here = static_cast<int64_t>(
        std::clamp(std::floor(center - reach + 0.5), static_cast<double>(low), last_begin));
    float* here = &weights[static_cast<size_t>(i * taps)];
    double sum = 0;
    const auto weight = [&](int64_t tap) {
      const double pixel = static_cast<double>(begin_here + tap) + 0.5;
      return std::max(0.0, 1 - std::abs(pixel - center) / reach);
    };
    for (int64_t tap = 0; tap < taps; ++tap) sum += weight(tap);
    // A center far outside the image has no pixel with weight, so the nearest pixel is used.
    const int64_t nearest = center < static_cast<double>(low) ? 0 : taps - 1;
    for (int64_t tap = 0; tap < taps; ++tap)
      here[tap] = sum > 0 ? static_cast<float>(weight(tap) / sum) : tap == nearest ? 1.0f : 0.0f;
    first[static_cast<size_t>(i)] = static_cast<int32_t>(begin_here);
  }
  begin = *std::min_element(first.begin(), first.end());
  end = *std::max_element(first.begin(), first.end()) + taps;
}

void resample(const Image& image, const AxisTaps& rows, const AxisTaps& columns,
              std::span<float> out, std::vector<float>& scratch) {
  check(rows.begin >= 0 && rows.end <= image.height && columns.begin >= 0 &&
            columns.end <= image.width,
        "resampling reaches outside the image");
  const size_t width = static_cast<size_t>((columns.end - columns.begin) * image.channels);
  const size_t out_width = columns.first.size() * static_cast<size_t>(image.channels);
  scratch.resize(width + kLanes);
  for (size_t y = 0; y < rows.first.size(); ++y) {
    sum_rows(image, rows, y, columns, std::span(scratch).first(width));
    float* to = &out[y * out_width];
    image.channels == 3 ? sum_columns_rgb(scratch.data(), columns, to)
                        : sum_columns_grey(scratch.data(), columns, to);
  }
}

void resize(const Image& image, const Area& area, int64_t height, int64_t width, Image& out) {
  AxisTaps rows, columns;
  rows.make(area.top, area.height / static_cast<double>(height), height, 0, image.height);
  columns.make(area.left, area.width / static_cast<double>(width), width, 0, image.width);
  std::vector<float> values(static_cast<size_t>(height * width * image.channels)), scratch;
  resample(image, rows, columns, values, scratch);
  out.reshape(height, width, image.channels);
  for (size_t i = 0; i < values.size(); ++i)
    out.pixels[i] = static_cast<uint8_t>(std::clamp(values[i] + 0.5f, 0.0f, 255.0f));
}

}  // namespace poseidon::data
