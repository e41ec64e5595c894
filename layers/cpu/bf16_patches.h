#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/bf16.h"
#include "layers/cpu/window_rows.h"

namespace poseidon::layers::cpu {

/// Columns of the matrix of patches that are adjacent in a copy of the source, and their offset
/// from the cell of a place.
struct AdjacentColumns {
  int64_t begin, end, offset;
};

/// A copy of the source cells that the patches of neighboring places read, padding included, for a
/// plain source. The channels of a cell are adjacent in the window, so that taps side by side are
/// one segment of a patch.
class ChannelWindow {
 public:
  /// The patches have at least one column.
  explicit ChannelWindow(const Patches& patches);

  /// The maximum number of elements of a window of this many places.
  int64_t elements(int64_t places) const { return rows_.most(places) * row_; }
  void fill(const Bf16* source, const PlaceRange& range, Bf16* window) const;
  /// Copies a piece of the matrix of patches to `panel`, as [place][column] with rows `row_step`
  /// elements apart.
  void copy_rows(const Bf16* window, const PlaceRange& range, const Patches::Piece& piece,
                 Bf16* panel, int64_t row_step) const;

 private:
  void fill_row(const Bf16* source, Bf16* to) const;
  void copy_segments(const Bf16* from, int64_t places, const Patches::Piece& piece, Bf16* panel,
                     int64_t row_step) const;

  WindowRows rows_;
  int64_t height_, width_, source_channels_, first_channel_, channels_;
  int64_t cells_;  ///< source cells of a row
  int64_t row_;    ///< elements of a row
  std::vector<AdjacentColumns> segments_;
};

/// A copy of the cells of all samples of a source, with padding. A position is the index of a cell.
/// A tap reads the cell at a fixed offset from the position, so rows of the matrix of patches need
/// no copies. Positions at the end of each row and of each sample are of no place.
///
/// If a cell has more than 16 channels, they are padded with zeros to whole units of a product. If
/// not, taps side by side read adjacent elements.
///
/// Requires are_legal().
class PaddedCells {
 public:
  explicit PaddedCells(Patches patches);

  /// Whether there is a tap and the steps are 1. A plain source must have at most 16 channels.
  static bool are_legal(const Patches& patches);
  int64_t positions() const { return patches_.grid().samples * rows_ * pitch_; }
  const std::vector<AdjacentColumns>& adjacent() const { return adjacent_; }
  /// Neighboring positions, of neighboring places or of no place.
  struct Run {
    int64_t place;  ///< the first place, or -1
    int64_t count;
  };
  /// The run from a position to the end of the places, or of the other cells, of its row.
  Run run_at(int64_t position) const;
  /// The places of `count` positions.
  PlaceRange places_of(int64_t position, int64_t count) const;
  /// Cells from a position to the last one that its taps read.
  int64_t reach() const { return reach_; }
  /// Elements of a cell.
  int64_t cell() const { return cell_; }
  /// Elements of a copy of the cells that the taps of `count` positions read, rounded up to whole
  /// blocks of a product.
  int64_t elements(int64_t count) const;
  void copy(const Bf16* source, int64_t position, int64_t count, Bf16* to) const;

 private:
  void copy_row(const Bf16* source, int64_t row, int64_t column, int64_t cells, Bf16* to) const;

  Patches patches_;
  std::array<int64_t, 2> least_;
  int64_t reach_;
  int64_t rows_, pitch_;  ///< rows of a sample, and cells of a row
  int64_t cell_;
  std::vector<AdjacentColumns> adjacent_;
};

/// Copies rows of the matrix of patches of a bf16 activation in any layout. Requires AVX-512.
class Bf16Patches {
 public:
  explicit Bf16Patches(Patches patches);

  const Patches& patches() const { return patches_; }
  /// Elements of memory that a source of this many places needs.
  int64_t elements(int64_t places) const { return window_ ? window_->elements(places) : 0; }

  /// An activation, prepared for a range of places.
  struct Source {
    const Bf16* activation;
    PlaceRange range;
    const Bf16* window;
  };
  /// `memory`: elements(range.places) elements.
  Source source(const Bf16* activation, const PlaceRange& range, Bf16* memory) const;
  /// Copies a piece to `panel`, as [place][column] with rows `row_step` elements apart. Columns
  /// from piece.columns up to `padded` become zero.
  void copy_rows(const Source& source, const Patches::Piece& piece, int64_t padded, Bf16* panel,
                 int64_t row_step) const;

 private:
  Patches patches_;
  std::optional<ChannelWindow> window_;  ///< if the source is plain
};

}  // namespace poseidon::layers::cpu
