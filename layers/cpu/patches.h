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

/// A place of a grid, which moves on without a division.
struct PatchCursor {
  PatchCursor(const PatchGrid& grid, int64_t place)
      : sample(place / (grid.height * grid.width)),
        row(place / grid.width % grid.height),
        column(place % grid.width) {}
  /// By `cells` cells, at most to the first one of the next row.
  void advance(const PatchGrid& grid, int64_t cells) {
    column += cells;
    if (column < grid.width) return;
    column = 0;
    if (++row < grid.height) return;
    row = 0;
    ++sample;
  }

  int64_t sample, row, column;
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
  /// To [place][column], rows `row_step` apart: for sources whose channels lie side by side. May
  /// write the rest of a row.
  void copy_rows(const float* source, const Piece& piece, float* panel, int64_t row_step) const;
  /// To [column][place], columns `column_step` apart: for the others.
  void copy_columns(const float* source, const Piece& piece, float* panel,
                    int64_t column_step) const;

 private:
  /// Channels of a tap that lie side by side: columns up to where the next run begins.
  struct Run {
    int64_t column, offset;  ///< its first column; where its channels are in a sample, at cell 0
    Tap tap;
  };
  /// Cells of a row of the grid whose source cells of a tap are inside.
  struct Inside {
    int64_t begin, end;
  };

  void list_runs();
  void list_inside();
  bool is_row(int64_t row) const { return row >= 0 && row < height_; }
  void copy_runs(const float* source, const PatchCursor& at, const Piece& piece, size_t first,
                 float* panel) const;
  void copy_blocks(const float* source, const Piece& piece, float* panel) const;
  void copy_cells(const float* source, const PatchCursor& at, size_t tap, int64_t channel,
                  int64_t cells, float* to) const;

  PatchGrid grid_;
  Blocking layout_;
  int64_t height_, width_, first_channel_, channels_;
  bool places_are_cells_;  ///< each place is the source's cell of the same number
  std::vector<Run> runs_;  ///< where neighbouring channels lie side by side; a last one ends it
  std::vector<Inside> inside_;  ///< of each tap, where they do not
};

}  // namespace poseidon::layers::cpu
