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
    : rows_(std::move(grid)),
      height_(source.height()),
      width_(source.width()),
      source_channels_(source.channels()),
      first_channel_(first_channel),
      channels_(channels) {
  const PatchGrid& places = rows_.grid();
  const int64_t step = places.step[1];
  pitch_ = places.width + (rows_.span(1) - 1) / step;
  row_ = channels_ * step * pitch_;
  for (const Tap& tap : places.taps)
    for (int64_t channel = 0; channel < channels_; ++channel) {
      const int64_t right = tap.offset[1] - rows_.least(1);
      offsets_.push_back((tap.offset[0] - rows_.least(0)) * row_ +
                         (channel * step + right % step) * pitch_ + right / step);
    }
}

int64_t PatchWindow::floats(int64_t places) const {
  return rows_.most(places) * row_ + kLanesOfBlock;
}

void PatchWindow::fill(const float* source, const Range& range, float* window) const {
  rows_.for_each(range, [&](int64_t sample, int64_t row) {
    if (row < 0 || row >= height_)
      std::fill_n(window, row_, 0.0F);
    else
      fill_row(
          source + (sample * source_channels_ + first_channel_) * height_ * width_ + row * width_,
          window);
    window += row_;
  });
}

/// Copies one row of all channels. `source` is the row of the first channel.
void PatchWindow::fill_row(const float* source, float* to) const {
  const int64_t step = rows_.grid().step[1];
  for (int64_t channel = 0; channel < channels_; ++channel, source += height_ * width_)
    for (int64_t remainder = 0; remainder < step; ++remainder, to += pitch_) {
      const int64_t left = rows_.least(1) + remainder;  // the source column of the first cell
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
  return window + rows_.row_of(first, at) * row_ + at.column;
}

void PatchWindow::copy_columns(const float* window, const Range& range, const Patches::Piece& piece,
                               float* panel, int64_t column_step) const {
  const PatchGrid& grid = rows_.grid();
  const PatchCursor first(grid, range.place);
  if (piece.places <= kLanesOfBlock) return copy_vectors(window, first, piece, panel, column_step);
  PatchCursor at(grid, piece.place);
  for (int64_t done = 0; done < piece.places;) {
    const int64_t places = std::min(grid.width - at.column, piece.places - done);
    const float* from = cell(window, first, at);
    for (int64_t column = 0; column < piece.columns; ++column)
      copy_numbers(from + offsets_[static_cast<size_t>(piece.column + column)], places,
                   panel + column * column_step + done);
    done += places;
    at.advance(grid, places);
  }
}

void PatchWindow::copy_vectors(const float* window, const PatchCursor& first,
                               const Patches::Piece& piece, float* panel,
                               int64_t column_step) const {
  std::array<WindowPart, kLanesOfBlock> parts;
  size_t count = 0;
  const PatchGrid& grid = rows_.grid();
  PatchCursor at(grid, piece.place);
  for (int64_t lane = 0; lane < piece.places; ++count) {
    const int64_t places = std::min(grid.width - at.column, piece.places - lane);
    parts[count] = {cell(window, first, at) - lane, lanes_between(lane, lane + places)};
    lane += places;
    at.advance(grid, places);
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
