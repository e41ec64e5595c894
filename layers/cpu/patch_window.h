#pragma once

#include <cstdint>
#include <vector>

#include "layers/cpu/window_rows.h"

namespace poseidon::layers::cpu {

/// A copy of the source cells that the patches of neighboring places read, padding included, for a
/// plain source. Cells of a row are ordered by their column modulo the grid's step. So in the
/// window, neighboring places of a grid row read neighboring floats, without a test for padding.
///
/// The order is [sample][row][channel][column modulo step][column / step].
class PatchWindow {
 public:
  /// The arguments are those of Patches. The grid has at least one tap.
  PatchWindow(PatchGrid grid, const Shape& source, int64_t first_channel, int64_t channels);

  using Range = PlaceRange;
  /// Floats of a window of this many places, at most.
  int64_t floats(int64_t places) const;
  /// Whether a window of this many places leaves room for panels in the second-level cache.
  bool is_small(int64_t places) const { return floats(places) <= 32 << 10; }
  void fill(const float* source, const Range& range, float* window) const;

  /// Copies a piece of the matrix of patches to `panel`, as [column][place] with columns
  /// `column_step` floats apart. Writes at least one vector for each column, in ascending order of
  /// columns if the piece has fewer places than a vector.
  void copy_columns(const float* window, const Range& range, const Patches::Piece& piece,
                    float* panel, int64_t column_step) const;

 private:
  void copy_vectors(const float* window, const PatchCursor& first, const Patches::Piece& piece,
                    float* panel, int64_t column_step) const;
  void fill_row(const float* source, float* to) const;
  const float* cell(const float* window, const PatchCursor& first, const PatchCursor& at) const;

  WindowRows rows_;
  int64_t height_, width_, source_channels_, first_channel_, channels_;
  int64_t pitch_ = 1, row_ = 1;   ///< floats of the cells with one remainder, and of a row
  std::vector<int64_t> offsets_;  ///< of each column of the matrix, from a place's first cell
};

}  // namespace poseidon::layers::cpu
