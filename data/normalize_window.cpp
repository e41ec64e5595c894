#include "data/normalize_window.h"

#include <algorithm>

namespace poseidon::data {

namespace {

/// Normalizes `count` pixels of one channel: every step-th value from `in`. For common numbers of
/// channels, kStep is equal to `step`, so the compiler can vectorize the loop. Else kStep is 0.
template <int64_t kStep, class Value>
void copy_run(const Value* in, int64_t step, int64_t count, float mean, float factor, float* out) {
  const int64_t stride = kStep > 0 ? kStep : step;
  for (int64_t x = 0; x < count; ++x) out[x] = (static_cast<float>(in[x * stride]) - mean) * factor;
}

template <class Value>
void copy_run(const Value* in, int64_t step, int64_t count, float mean, float factor, float* out) {
  if (step == 3) return copy_run<3>(in, step, count, mean, factor, out);
  if (step == 1) return copy_run<1>(in, step, count, mean, factor, out);
  copy_run<0>(in, step, count, mean, factor, out);
}

}  // namespace

template <class Value>
void normalize_window(const PixelWindow<Value>& window, const Normalization& normalization,
                      bool mirror, int64_t out_height, int64_t out_width, std::span<float> out) {
  const int64_t channels = static_cast<int64_t>(normalization.mean.size());
  // Output columns begin .. end - 1 are inside the pixels; the other columns are black.
  const int64_t begin = std::clamp<int64_t>(-window.left, 0, out_width);
  const int64_t end = std::clamp<int64_t>(window.width - window.left, begin, out_width);
  for (int64_t c = 0; c < channels; ++c) {
    const float mean = normalization.mean[static_cast<size_t>(c)];
    const float factor = normalization.factor[static_cast<size_t>(c)];
    const float black = (0 - mean) * factor;
    for (int64_t y = 0; y < out_height; ++y) {
      float* row = &out[static_cast<size_t>((c * out_height + y) * out_width)];
      const int64_t from = window.top + y;
      if (from < 0 || from >= window.height) {
        std::fill(row, row + out_width, black);
        continue;
      }
      std::fill(row, row + begin, black);
      if (begin < end)
        copy_run(window.pixels + (from * window.width + window.left + begin) * channels + c,
                 channels, end - begin, mean, factor, row + begin);
      std::fill(row + end, row + out_width, black);
      if (mirror) std::reverse(row, row + out_width);
    }
  }
}

template void normalize_window(const PixelWindow<uint8_t>&, const Normalization&, bool, int64_t,
                               int64_t, std::span<float>);
template void normalize_window(const PixelWindow<float>&, const Normalization&, bool, int64_t,
                               int64_t, std::span<float>);

void copy_window(const PixelWindow<uint8_t>& window, int64_t channels, bool mirror,
                 int64_t out_height, int64_t out_width, std::span<uint8_t> out) {
  std::ranges::fill(out, uint8_t{0});
  const int64_t begin = std::clamp<int64_t>(-window.left, 0, out_width);
  const int64_t end = std::clamp<int64_t>(window.width - window.left, begin, out_width);
  for (int64_t y = 0; y < out_height; ++y) {
    const int64_t from = window.top + y;
    if (from < 0 || from >= window.height || begin == end) continue;
    const uint8_t* in = window.pixels + (from * window.width + window.left + begin) * channels;
    uint8_t* row = &out[static_cast<size_t>(y * out_width * channels)];
    if (!mirror) {
      std::copy_n(in, (end - begin) * channels, row + begin * channels);
      continue;
    }
    for (int64_t x = begin; x < end; ++x, in += channels)
      std::copy_n(in, channels, row + (out_width - 1 - x) * channels);
  }
}

}  // namespace poseidon::data
