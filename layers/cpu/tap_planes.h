#pragma once

#include <array>
#include <cstdint>

#include "layers/cpu/window_rows.h"

namespace poseidon::layers::cpu {

/// Some rows of a grid, of each of some samples.
struct GridRows {
  int64_t sample, samples, row, rows;
};

/// A copy of the source cells that the patches of some grid rows read, padding included, in planes
/// of places. In a plane, each place is one float after the place to its left, and pitch() floats
/// after the place above it. So a tap reads at the same offset for all places.
///
/// The order is [channel][row modulo step][column modulo step][sample][row / step][column / step].
/// A plane has the last three. After each plane there is memory for one vector.
class TapPlanes {
 public:
  explicit TapPlanes(const Patches& patches);

  int64_t pitch() const { return pitch_; }
  /// Floats from a place to the same place of the next sample.
  int64_t sample_step(const GridRows& range) const { return (range.rows + extra_) * pitch_; }
  int64_t channel_step(const GridRows& range) const {
    return steps_[0] * steps_[1] * plane_step(range);
  }
  /// Floats from the first place to the end of the last one.
  int64_t extent(const GridRows& range) const {
    return range.samples * sample_step(range) - (extra_ + 1) * pitch_ + width_;
  }
  int64_t floats(const GridRows& range) const { return channels_ * channel_step(range); }
  /// The offset of a tap from a place.
  int64_t offset(const Tap& tap, const GridRows& range) const;

  /// Copies the cells. `row` is memory for floats_of_row() floats.
  void fill(const Patches& patches, const float* source, const GridRows& range, float* planes,
            float* row) const;
  int64_t floats_of_row() const { return (pitch_ + kLanesOfBlock) * steps_[1] * cell_; }

 private:
  int64_t plane_step(const GridRows& range) const {
    return range.samples * sample_step(range) + kLanesOfBlock;
  }
  void clear_row(const GridRows& range, float* to) const;
  void copy_row(const Patches& patches, const float* from, const GridRows& range, float* to) const;
  void transpose_row(const float* row, const GridRows& range, float* to) const;

  WindowRows rows_;
  std::array<int64_t, 2> steps_;
  int64_t width_, channels_, source_width_;
  int64_t extra_, pitch_;  ///< rows of a plane beyond the grid's, and its columns
  int64_t cell_ = 0;       ///< floats of a cell in a row of cells
};

}  // namespace poseidon::layers::cpu
