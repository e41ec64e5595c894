#pragma once

#include <cstdint>
#include <vector>

#include "layers/cpu/bf16_patches.h"
#include "layers/cpu/bf16_product.h"

namespace poseidon::layers::cpu::product {

/// Columns of the matrix of patches, at most two vectors, which a panel of B has.
struct PatchStrip {
  int64_t begin, end;
  /// In padded cells: cells from a position's to that of the first column, and vectors of adjacent
  /// columns before it.
  int64_t shift = 0, vector = 0;

  int64_t vectors() const;
};

/// Padded cells as pairs of neighbors: for each vector of adjacent columns, the pairs that begin
/// with an even cell, then those that begin with an odd cell. So the panel of B of each tap is in
/// memory, if the summed index is the position. Requires AVX-512.
class CellPairs {
 public:
  explicit CellPairs(const PaddedCells& padded);

  const PaddedCells& padded() const { return padded_; }
  const std::vector<PatchStrip>& strips() const { return strips_; }
  /// The maximum number of vectors of adjacent columns.
  int64_t vectors() const { return vectors_; }
  /// The maximum number of positions of a block, whose pairs stay in the second-level cache.
  int64_t positions_of_block() const { return positions_; }
  /// Elements of memory for a block.
  int64_t elements() const {
    return 2 * vectors_ * elements_of_vector() + padded_.elements(cells());
  }
  void copy(const Bf16* source, const PlaceRange& block, Bf16* memory) const;
  /// The panel of B of a strip, for positions from `position` of the block on.
  Bf16Panel panel(const Bf16* memory, int64_t position, const PatchStrip& strip) const;

 private:
  /// Cells for a block, without those that taps of its last positions read.
  int64_t cells() const { return positions_ + kUnitOfBf16 + 2; }
  int64_t elements_of_vector() const;

  PaddedCells padded_;
  std::vector<PatchStrip> strips_;
  int64_t vectors_ = 0, last_shift_ = 0, positions_ = 0;
};

}  // namespace poseidon::layers::cpu::product
