#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/bf16.h"
#include "layers/cpu/window_rows.h"

namespace poseidon::layers::cpu {

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
  /// Columns of the matrix that are adjacent in the window.
  struct Segment {
    int64_t column, offset, count;
  };

  void fill_row(const Bf16* source, Bf16* to) const;
  void copy_segments(const Bf16* from, int64_t places, const Patches::Piece& piece, Bf16* panel,
                     int64_t row_step) const;

  WindowRows rows_;
  int64_t height_, width_, source_channels_, first_channel_, channels_;
  int64_t cells_;  ///< source cells of a row
  int64_t row_;    ///< elements of a row
  std::vector<Segment> segments_;
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
