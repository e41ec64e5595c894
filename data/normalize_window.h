#pragma once

#include <cstdint>
#include <span>

#include "core/batch_values.h"

namespace poseidon::data {

/// Interleaved pixels and the window that becomes the output. The window is black outside the
/// pixels.
template <class Value>
struct PixelWindow {
  const Value* pixels = nullptr;  ///< height x width x channels
  int64_t height = 0, width = 0;
  int64_t top = 0, left = 0;  ///< the window's top left corner in `pixels`; below 0: outside
};

/// Writes the window as channels x out_height x out_width normalized floats. Also normalizes the
/// black values outside the pixels. `mirror` swaps left and right. `normalization` determines the
/// number of channels.
template <class Value>
void normalize_window(const PixelWindow<Value>& window, const Normalization& normalization,
                      bool mirror, int64_t out_height, int64_t out_width, std::span<float> out);

extern template void normalize_window(const PixelWindow<uint8_t>&, const Normalization&, bool,
                                      int64_t, int64_t, std::span<float>);
extern template void normalize_window(const PixelWindow<float>&, const Normalization&, bool,
                                      int64_t, int64_t, std::span<float>);

/// Writes the window as out_height x out_width x channels pixels. `mirror` swaps left and right.
void copy_window(const PixelWindow<uint8_t>& window, int64_t channels, bool mirror,
                 int64_t out_height, int64_t out_width, std::span<uint8_t> out);

}  // namespace poseidon::data
