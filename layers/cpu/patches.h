#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/shape.h"

namespace poseidon::layers::cpu {

/// A tap of a kernel, and the distance from the cell of a place to the source cell that the tap
/// reads.
struct Tap {
  int64_t index = 0;                ///< in the kernel, row by row
  std::array<int64_t, 2> offset{};  ///< cells down, cells to the right
};

/// A grid of places, in the order of samples, rows and columns. The patch of a place has the
/// channels of one source cell for every tap. Cells outside the source are zero.
struct PatchGrid {
  int64_t samples = 0, height = 0, width = 0;
  std::array<int64_t, 2> step{1, 1};  ///< cells of the source from one place to the next
  std::vector<Tap> taps;

  int64_t places() const { return samples * height * width; }
};

/// The current place of a loop over a grid. advance() needs no division.
struct PatchCursor {
  PatchCursor(const PatchGrid& grid, int64_t place)
      : sample(place / (grid.height * grid.width)),
        row(place / grid.width % grid.height),
        column(place % grid.width) {}
  /// Advances by `cells` places, at most to the first place of the next row.
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

/// The matrix of all patches (im2col): a row for each place, a column for each tap and channel.
/// Memory never has the complete matrix. Callers copy pieces of the matrix to panels.
class Patches {
 public:
  /// The patches of `channels` channels, from `first_channel` on, of an activation with this shape
  /// and layout.
  Patches(PatchGrid grid, const Shape& source, Layout layout, int64_t first_channel,
          int64_t channels);

  const PatchGrid& grid() const { return grid_; }
  const Shape& source() const { return source_; }
  const Blocking& layout() const { return layout_; }
  int64_t first_channel() const { return first_channel_; }
  int64_t places() const { return grid_.places(); }
  int64_t channels() const { return channels_; }
  int64_t columns() const { return static_cast<int64_t>(grid_.taps.size()) * channels_; }
  /// Whether neighboring channels are adjacent in memory. If not, neighboring cells are adjacent.
  bool by_channels() const { return layout_.block > 1; }

  /// Whether blocks of `lanes` channels are contiguous in memory, for the places of each sample:
  /// the places are the source's cells, and the layout has such blocks.
  bool has_blocks(int64_t lanes) const {
    return places_are_cells_ && layout_.block == lanes && first_channel_ % lanes == 0;
  }
  /// The address of the block with this column in the patch of this place. Requires has_blocks().
  const float* block_at(const float* source, int64_t place, int64_t column) const {
    return source +
           layout_.offset(place / layout_.area, first_channel_ + column, place % layout_.area);
  }

  /// A part of the matrix: first place, number of places, first column, number of columns.
  struct Piece {
    int64_t place, places, column, columns;
  };
  /// Copies a piece to `panel`, as [place][column] with rows `row_step` elements apart. Requires
  /// by_channels(). May also write to the rest of each row of `panel`. Element: float, or Bf16 on
  /// processors with AVX-512.
  template <class Element>
  void copy_rows(const Element* source, const Piece& piece, Element* panel, int64_t row_step) const;
  /// Copies the channels of `cells` neighboring cells of a source row, from `column` on, to
  /// [cell][channel] with cells `cell_step` elements apart. Requires by_channels().
  template <class Element>
  void copy_cells_of_row(const Element* source, int64_t sample, int64_t row, int64_t column,
                         int64_t cells, Element* to, int64_t cell_step) const;
  /// Copies a piece to `panel`, as [column][place] with columns `column_step` floats apart.
  /// Requires !by_channels().
  void copy_columns(const float* source, const Piece& piece, float* panel,
                    int64_t column_step) const;

 private:
  /// Adjacent channels of a tap. Their columns in the matrix end at the beginning of the next run.
  struct Run {
    int64_t column;  ///< first column of the run
    int64_t offset;  ///< offset in elements of its first channel in cell 0 of a sample
    size_t tap;
  };
  /// For one tap: a range of places for which the tap reads inside the source.
  struct Inside {
    int64_t begin, end;
  };

  void list_runs();
  void list_inside();
  Inside inside_of(size_t tap, const PatchCursor& at, int64_t cells) const;
  template <class Element>
  void copy_runs(const Element* source, const PatchCursor& at, int64_t cells, const Piece& piece,
                 size_t first, Element* panel, int64_t row_step) const;
  template <class Element>
  void copy_blocks(const Element* source, const Piece& piece, Element* panel) const;
  void copy_cells(const float* source, const PatchCursor& at, size_t tap, int64_t channel,
                  int64_t cells, float* to) const;

  PatchGrid grid_;
  Shape source_;
  Blocking layout_;
  int64_t height_, width_, first_channel_, channels_;
  bool places_are_cells_;       ///< whether place i is cell i of the source
  std::vector<Run> runs_;       ///< if by_channels(); a last entry marks the end
  std::vector<Inside> inside_;  ///< for each tap: columns of the grid
};

}  // namespace poseidon::layers::cpu
