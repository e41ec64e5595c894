#include "layers/cpu/patches.h"

#include <algorithm>
#include <utility>

namespace poseidon::layers::cpu {

namespace {

/// A copy of a whole vector is one instruction.
void copy_numbers(const float* from, int64_t count, float* to) {
  if (count == 16)
    std::copy_n(from, 16, to);
  else
    std::copy_n(from, count, to);
}

int64_t divided_up(int64_t value, int64_t by) {
  return value <= 0 ? -(-value / by) : (value + by - 1) / by;
}

}  // namespace

Patches::Patches(PatchGrid grid, const Shape& source, Layout layout, int64_t first_channel,
                 int64_t channels)
    : grid_(std::move(grid)),
      layout_(source, layout),
      height_(source.height()),
      width_(source.width()),
      first_channel_(first_channel),
      channels_(channels) {}

Patches::Cell Patches::cell_of(int64_t place) const {
  return {.sample = place / (grid_.height * grid_.width),
          .row = place / grid_.width % grid_.height,
          .column = place % grid_.width};
}

void Patches::copy_rows(const float* source, const Piece& piece, float* panel,
                        int64_t row_step) const {
  for (int64_t i = 0; i < piece.places; ++i, panel += row_step) {
    const Cell cell = cell_of(piece.place + i);
    int64_t tap = piece.column / channels_, channel = piece.column % channels_;
    for (int64_t column = 0; column < piece.columns; ++tap, channel = 0) {
      const int64_t count = std::min(channels_ - channel, piece.columns - column);
      copy_cell(source, cell, grid_.taps[static_cast<size_t>(tap)], channel, count, panel + column);
      column += count;
    }
  }
}

void Patches::copy_cell(const float* source, const Cell& cell, const Tap& tap, int64_t channel,
                        int64_t channels, float* to) const {
  const int64_t row = cell.row * grid_.step[0] + tap.offset[0];
  const int64_t column = cell.column * grid_.step[1] + tap.offset[1];
  if (row < 0 || row >= height_ || column < 0 || column >= width_) {
    std::fill_n(to, channels, 0.0F);
    return;
  }
  for (int64_t done = 0; done < channels;) {
    const int64_t at = first_channel_ + channel + done;
    const int64_t count = std::min(channels - done, layout_.block - at % layout_.block);
    copy_numbers(source + layout_.offset(cell.sample, at, row * width_ + column), count, to + done);
    done += count;
  }
}

void Patches::copy_columns(const float* source, const Piece& piece, float* panel,
                           int64_t column_step) const {
  for (int64_t done = 0; done < piece.places;) {
    const Cell cell = cell_of(piece.place + done);
    const int64_t cells = std::min(grid_.width - cell.column, piece.places - done);
    int64_t tap = piece.column / channels_, channel = piece.column % channels_;
    for (int64_t column = 0; column < piece.columns; ++column) {
      copy_cells(source, cell, grid_.taps[static_cast<size_t>(tap)], channel, cells,
                 panel + column * column_step + done);
      if (++channel == channels_) {
        channel = 0;
        ++tap;
      }
    }
    done += cells;
  }
}

void Patches::copy_cells(const float* source, const Cell& cell, const Tap& tap, int64_t channel,
                         int64_t cells, float* to) const {
  const int64_t row = cell.row * grid_.step[0] + tap.offset[0], step = grid_.step[1];
  const int64_t first = cell.column * step + tap.offset[1];
  // Cells from `begin` to `end` are inside.
  int64_t begin = std::clamp<int64_t>(divided_up(-first, step), 0, cells);
  int64_t end = std::clamp<int64_t>(divided_up(width_ - first, step), begin, cells);
  if (row < 0 || row >= height_) begin = end = cells;
  std::fill_n(to, begin, 0.0F);
  const float* from = source + layout_.offset(cell.sample, first_channel_ + channel, row * width_);
  if (step == 1)
    copy_numbers(from + first + begin, end - begin, to + begin);
  else
    for (int64_t i = begin; i < end; ++i) to[i] = from[first + i * step];
  std::fill(to + end, to + cells, 0.0F);
}

}  // namespace poseidon::layers::cpu
