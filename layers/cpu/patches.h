#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/shape.h"

namespace poseidon::layers::cpu {

/// A tap of a kernel, and the distance of the source cell that it reads from the cell of its place.
struct Tap {
  int64_t index = 0;                ///< in the kernel, row by row
  std::array<int64_t, 2> offset{};  ///< cells down, cells to the right
};

/// Places of a grid, row by row and sample by sample. The patch of a place has the channels of one
/// source cell for every tap. Cells outside the source are zero.
struct PatchGrid {
  int64_t samples = 0, height = 0, width = 0;
  std::array<int64_t, 2> step{1, 1};  ///< cells of the source from one place to the next
  std::vector<Tap> taps;

  int64_t places() const { return samples * height * width; }
};

/// The matrix of all patches: a row for each place, a column for each tap and channel. It is never
/// stored whole. Pieces of it are copied to panels.
class Patches {
 public:
  /// Of `channels` channels of an activation of this shape and layout from `first_channel` on.
  Patches(PatchGrid grid, const Shape& source, Layout layout, int64_t first_channel,
          int64_t channels);

  const PatchGrid& grid() const { return grid_; }
  int64_t places() const { return grid_.places(); }
  int64_t channels() const { return channels_; }
  int64_t columns() const { return static_cast<int64_t>(grid_.taps.size()) * channels_; }
  /// Whether neighbouring channels lie side by side, else neighbouring cells do.
  bool by_channels() const { return layout_.block > 1; }

  /// A part of the matrix: first place, number of places, first column, number of columns.
  struct Piece {
    int64_t place, places, column, columns;
  };
  /// To [place][column], rows `row_step` apart: for sources whose channels lie side by side.
  void copy_rows(const float* source, const Piece& piece, float* panel, int64_t row_step) const;
  /// To [column][place], columns `column_step` apart: for the others.
  void copy_columns(const float* source, const Piece& piece, float* panel,
                    int64_t column_step) const;

 private:
  struct Cell {
    int64_t sample, row, column;
  };
  Cell cell_of(int64_t place) const;
  void copy_cell(const float* source, const Cell& cell, const Tap& tap, int64_t channel,
                 int64_t channels, float* to) const;
  /// Cells of one row of the grid, from `cell` on.
  void copy_cells(const float* source, const Cell& cell, const Tap& tap, int64_t channel,
                  int64_t cells, float* to) const;

  PatchGrid grid_;
  Blocking layout_;
  int64_t height_, width_, first_channel_, channels_;
};

}  // namespace poseidon::layers::cpu
