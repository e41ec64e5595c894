#include "layers/cpu/patch_window.h"

#include <algorithm>
#include <utility>

#include "layers/cpu/lane_masks.h"
#include "layers/cpu/strided_copy.h"

namespace poseidon::layers::cpu {

namespace {

/// The places of a vector that are in one grid row.
struct WindowPart {
  const float* from;  ///< the first cell of lane 0
  LaneMask lanes;
};

}  // namespace

PatchWindow::PatchWindow(PatchGrid grid, const Shape& source, int64_t first_channel,
                         int64_t channels)
    : grid_(std::move(grid)),
      height_(source.height()),
      width_(source.width()),
      source_channels_(source.channels()),
      first_channel_(first_channel),
      channels_(channels) {
  std::array<int64_t, 2> most = least_ = grid_.taps[0].offset;
  for (const Tap& tap : grid_.taps)
    for (size_t axis = 0; axis < 2; ++axis) {
      least_[axis] = std::min(least_[axis], tap.offset[axis]);
      most[axis] = std::max(most[axis], tap.offset[axis]);
    }
  const int64_t step = grid_.step[1];
  span_ = most[0] - least_[0] + 1;
  pitch_ = grid_.width + (most[1] - least_[1]) / step;
  row_ = channels_ * step * pitch_;
  for (const Tap& tap : grid_.taps)
    for (int64_t channel = 0; channel < channels_; ++channel) {
      const int64_t right = tap.offset[1] - least_[1];
      offsets_.push_back((tap.offset[0] - least_[0]) * row_ +
                         (channel * step + right % step) * pitch_ + right / step);
    }
}

int64_t PatchWindow::floats(int64_t places) const {
  const int64_t of_sample = grid_.height * grid_.width;
  const int64_t grid_rows = (places + grid_.width - 2) / grid_.width + 1;
  const int64_t samples = (places + of_sample - 2) / of_sample + 1;
  return (grid_rows * grid_.step[0] + samples * span_) * row_ + kLanesOfBlock;
}

void PatchWindow::fill(const float* source, const Range& range, float* window) const {
  PatchCursor at(grid_, range.place);
  for (int64_t left = range.places; left > 0;) {
    const int64_t places = std::min(left, (grid_.height - at.row) * grid_.width - at.column);
    const int64_t grid_rows = (at.column + places - 1) / grid_.width + 1;
    const int64_t first = at.row * grid_.step[0] + least_[0];
    for (int64_t row = first; row < first + rows_of(grid_rows); ++row, window += row_) {
      if (row < 0 || row >= height_)
        std::fill_n(window, row_, 0.0F);
      else
        fill_row(source + (at.sample * source_channels_ + first_channel_) * height_ * width_ +
                     row * width_,
                 window);
    }
    left -= places;
    at.column = at.row = 0;
    ++at.sample;
  }
}

/// Copies one row of all channels. `source` is the row of the first channel.
void PatchWindow::fill_row(const float* source, float* to) const {
  const int64_t step = grid_.step[1];
  for (int64_t channel = 0; channel < channels_; ++channel, source += height_ * width_)
    for (int64_t remainder = 0; remainder < step; ++remainder, to += pitch_) {
      const int64_t left = least_[1] + remainder;  // the source column of the first cell
      const int64_t begin = std::clamp<int64_t>(divided_up(-left, step), 0, pitch_);
      const int64_t end = std::clamp<int64_t>(divided_up(width_ - left, step), begin, pitch_);
      std::fill_n(to, begin, 0.0F);
      if (begin < end) copy_strided(source + left + begin * step, step, end - begin, to + begin);
      std::fill(to + end, to + pitch_, 0.0F);
    }
}

/// The first cell of the patch of a place, in a window whose first place is `first`.
const float* PatchWindow::cell(const float* window, const PatchCursor& first,
                               const PatchCursor& at) const {
  int64_t row = (at.row - first.row) * grid_.step[0];
  if (at.sample > first.sample)
    row = rows_of(grid_.height - first.row) +
          (at.sample - first.sample - 1) * rows_of(grid_.height) + at.row * grid_.step[0];
  return window + row * row_ + at.column;
}

void PatchWindow::copy_columns(const float* window, const Range& range, const Patches::Piece& piece,
                               float* panel, int64_t column_step) const {
  const PatchCursor first(grid_, range.place);
  if (piece.places <= kLanesOfBlock) return copy_vectors(window, first, piece, panel, column_step);
  PatchCursor at(grid_, piece.place);
  for (int64_t done = 0; done < piece.places;) {
    const int64_t places = std::min(grid_.width - at.column, piece.places - done);
    const float* from = cell(window, first, at);
    for (int64_t column = 0; column < piece.columns; ++column)
      copy_numbers(from + offsets_[static_cast<size_t>(piece.column + column)], places,
                   panel + column * column_step + done);
    done += places;
    at.advance(grid_, places);
  }
}

void PatchWindow::copy_vectors(const float* window, const PatchCursor& first,
                               const Patches::Piece& piece, float* panel,
                               int64_t column_step) const {
  std::array<WindowPart, kLanesOfBlock> parts;
  size_t count = 0;
  PatchCursor at(grid_, piece.place);
  for (int64_t lane = 0; lane < piece.places; ++count) {
    const int64_t places = std::min(grid_.width - at.column, piece.places - lane);
    parts[count] = {cell(window, first, at) - lane, lanes_between(lane, lane + places)};
    lane += places;
    at.advance(grid_, places);
  }
  const int64_t* offsets = offsets_.data() + piece.column;
  if (count == 1) {
    for (int64_t column = 0; column < piece.columns; ++column)
      store(panel + column * column_step,
            cpu::load<VectorOfBlock>(parts[0].from + offsets[column]));
    return;
  }
  for (int64_t column = 0; column < piece.columns; ++column) {
    VectorOfBlock vector = load_lanes(parts[0].from + offsets[column], parts[0].lanes);
    for (size_t i = 1; i < count; ++i)
      vector = either(vector, load_lanes(parts[i].from + offsets[column], parts[i].lanes));
    store(panel + column * column_step, vector);
  }
}

}  // namespace poseidon::layers::cpu
