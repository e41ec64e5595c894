#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "layers/cpu/patches.h"

namespace poseidon::layers::cpu {

/// A range of places, whose cells one window has.
struct PlaceRange {
  int64_t place, places;
};

/// The source rows that the patches of neighboring places read, padding included: a window. Rows of
/// one sample follow those of the sample before.
class WindowRows {
 public:
  explicit WindowRows(PatchGrid grid) : grid_(std::move(grid)) {
    if (!grid_.taps.empty()) most_ = least_ = grid_.taps[0].offset;
    for (const Tap& tap : grid_.taps)
      for (size_t axis = 0; axis < 2; ++axis) {
        least_[axis] = std::min(least_[axis], tap.offset[axis]);
        most_[axis] = std::max(most_[axis], tap.offset[axis]);
      }
  }

  const PatchGrid& grid() const { return grid_; }
  /// The least offset of a tap along an axis, and the number of source cells from it to the
  /// greatest one.
  int64_t least(size_t axis) const { return least_[axis]; }
  int64_t span(size_t axis) const { return most_[axis] - least_[axis] + 1; }

  /// The maximum number of rows for this many places.
  int64_t most(int64_t places) const {
    const int64_t of_sample = grid_.height * grid_.width;
    const int64_t grid_rows = (places + grid_.width - 2) / grid_.width + 1;
    const int64_t samples = (places + of_sample - 2) / of_sample + 1;
    return grid_rows * grid_.step[0] + samples * span(0);
  }
  /// Calls body(sample, row) for each row of a window. The row may be outside the source.
  template <class Body>
  void for_each(const PlaceRange& range, const Body& body) const {
    PatchCursor at(grid_, range.place);
    for (int64_t left = range.places; left > 0;) {
      const int64_t places = std::min(left, (grid_.height - at.row) * grid_.width - at.column);
      const int64_t grid_rows = (at.column + places - 1) / grid_.width + 1;
      const int64_t first = at.row * grid_.step[0] + least_[0];
      for (int64_t row = first; row < first + rows_of(grid_rows); ++row) body(at.sample, row);
      left -= places;
      at.column = at.row = 0;
      ++at.sample;
    }
  }
  /// The index of the first row of a place, in a window whose first place is `first`.
  int64_t row_of(const PatchCursor& first, const PatchCursor& at) const {
    if (at.sample == first.sample) return (at.row - first.row) * grid_.step[0];
    return rows_of(grid_.height - first.row) +
           (at.sample - first.sample - 1) * rows_of(grid_.height) + at.row * grid_.step[0];
  }

 private:
  int64_t rows_of(int64_t grid_rows) const { return (grid_rows - 1) * grid_.step[0] + span(0); }

  PatchGrid grid_;
  std::array<int64_t, 2> least_{}, most_{};
};

}  // namespace poseidon::layers::cpu
