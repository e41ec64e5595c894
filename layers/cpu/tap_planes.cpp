#include "layers/cpu/tap_planes.h"

#include <algorithm>

#include "layers/cpu/portions.h"
#include "layers/cpu/strided_copy.h"
#include "layers/cpu/transpose.h"

namespace poseidon::layers::cpu {

namespace {

constexpr std::array<float, 16> kSomeZeros{};

/// Writes zeros. Copies them, because the compiler calls memset for std::fill_n.
void clear_numbers(int64_t count, float* to) {
  constexpr auto kMost = std::ssize(kSomeZeros);
  for (; count > 0; count -= kMost, to += kMost)
    copy_numbers(kSomeZeros.data(), std::min<int64_t>(count, kMost), to);
}

}  // namespace

TapPlanes::TapPlanes(const Patches& patches)
    : rows_(patches.grid()),
      steps_(patches.grid().step),
      width_(patches.grid().width),
      channels_(patches.channels()),
      source_width_(patches.source().width()),
      extra_((rows_.span(0) - 1) / steps_[0]),
      pitch_(width_ + (rows_.span(1) - 1) / steps_[1]) {
  if (patches.by_channels()) cell_ = round_up(channels_, kLanesOfBlock);
}

int64_t TapPlanes::offset(const Tap& tap, const GridRows& range) const {
  const int64_t down = tap.offset[0] - rows_.least(0), right = tap.offset[1] - rows_.least(1);
  const int64_t plane = down % steps_[0] * steps_[1] + right % steps_[1];
  return plane * plane_step(range) + down / steps_[0] * pitch_ + right / steps_[1];
}

void TapPlanes::fill(const Patches& patches, const float* source, const GridRows& range,
                     float* planes, float* row) const {
  const int64_t left = rows_.least(1), columns = pitch_ * steps_[1];
  const int64_t begin = std::clamp<int64_t>(-left, 0, columns);
  const int64_t end = std::clamp<int64_t>(source_width_ - left, begin, columns);
  std::fill_n(row, floats_of_row(), 0.0F);
  const int64_t rows = (range.rows + extra_) * steps_[0];
  for (int64_t sample = 0; sample < range.samples; ++sample)
    for (int64_t down = 0; down < rows; ++down) {
      float* to = planes + down % steps_[0] * steps_[1] * plane_step(range) +
                  sample * sample_step(range) + down / steps_[0] * pitch_;
      const int64_t y = range.row * steps_[0] + rows_.least(0) + down;
      if (y < 0 || y >= patches.source().height()) {
        clear_row(range, to);
      } else if (patches.by_channels()) {
        patches.copy_cells_of_row(source, range.sample + sample, y, left + begin, end - begin,
                                  row + begin * cell_, cell_);
        transpose_row(row, range, to);
      } else {
        copy_row(patches,
                 source + patches.layout().offset(range.sample + sample, patches.first_channel(),
                                                  y * source_width_),
                 range, to);
      }
    }
}

/// Writes one row of zeros to all planes of all channels.
void TapPlanes::clear_row(const GridRows& range, float* to) const {
  for (int64_t plane = 0; plane < channels_ * steps_[1]; ++plane)
    std::fill_n(
        to + plane / steps_[1] * channel_step(range) + plane % steps_[1] * plane_step(range),
        pitch_, 0.0F);
}

/// Copies one row of a plain source. `from` is the row of the first channel.
void TapPlanes::copy_row(const Patches& patches, const float* from, const GridRows& range,
                         float* to) const {
  const int64_t area = patches.source().height() * source_width_, step = steps_[1];
  for (int64_t remainder = 0; remainder < step; ++remainder, to += plane_step(range)) {
    const int64_t left = rows_.least(1) + remainder;  // the source column of the first cell
    const int64_t begin = std::clamp<int64_t>(divided_up(-left, step), 0, pitch_);
    const int64_t end = std::clamp<int64_t>(divided_up(source_width_ - left, step), begin, pitch_);
    for (int64_t channel = 0; channel < channels_; ++channel) {
      float* row = to + channel * channel_step(range);
      clear_numbers(begin, row);
      if (begin < end)
        copy_strided(from + channel * area + left + begin * step, step, end - begin, row + begin);
      clear_numbers(pitch_ - end, row + end);
    }
  }
}

/// Copies one row, given as [cell][channel] with padding. The last vector may also write to the
/// next row of the plane, which is copied later, or to the memory after the plane.
void TapPlanes::transpose_row(const float* row, const GridRows& range, float* to) const {
  constexpr int64_t kLanes = kLanesOfBlock;
  const int64_t step = channel_step(range);
  for (int64_t remainder = 0; remainder < steps_[1]; ++remainder, to += plane_step(range))
    for (int64_t column = 0; column < pitch_; column += kLanes)
      for (int64_t channel = 0; channel < channels_; channel += kLanes) {
        VectorOfBlock square[kLanes];
#pragma GCC unroll 16
        for (int64_t i = 0; i < kLanes; ++i)
          square[i] =
              load<VectorOfBlock>(row + ((column + i) * steps_[1] + remainder) * cell_ + channel);
        transpose_square(square);
        const int64_t count = std::min(kLanes, channels_ - channel);
        for (int64_t i = 0; i < count; ++i) store(to + (channel + i) * step + column, square[i]);
      }
}

}  // namespace poseidon::layers::cpu
