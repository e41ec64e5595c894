#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "layers/cpu/patches.h"
#include "layers/cpu/vectors.h"

namespace poseidon::layers::cpu::product {

/// The destination of a product of patches: a range of channels of an activation. The result of the
/// grid's place (row, column) is stored in the cell first + (row, column) * step.
struct PatchResult {
  Shape shape;
  Layout layout = Layout::kPlain;
  std::array<int64_t, 2> first{0, 0};
  std::array<int64_t, 2> step{1, 1};
  int64_t first_channel = 0, channels = 0;
};

/// The addresses of the results of a product of patches.
class ResultCells {
 public:
  explicit ResultCells(const PatchResult& result);

  /// Columns of the product: the channels, and the padding of the last block if only this product
  /// writes to the block.
  int64_t columns() const { return columns_; }
  /// Elements between two vectors of channels of one cell.
  int64_t vector_step() const {
    return result_.layout == Layout::kChannelsLast ? kLanesOfBlock : layout_.area * layout_.block;
  }
  /// The offset of a column, the first one of a vector, in a cell. With column_offsets(), which
  /// include the column, the offset of the result's first channel.
  int64_t offset_of(int64_t column) const {
    return layout_.offset(0, result_.first_channel + (column_offsets_.empty() ? column : 0), 0);
  }
  /// The offsets of `column` and later columns in a cell; nullptr if vectors of channels are
  /// contiguous.
  const int64_t* column_offsets(int64_t column) const {
    return column_offsets_.empty() ? nullptr : column_offsets_.data() + column;
  }
  /// The offset of any column in a cell.
  int64_t offset_of_channel(int64_t column) const {
    return layout_.offset(0, result_.first_channel + column, 0);
  }
  /// Lists the addresses of the cells for `count` places from `place` on, at channel 0.
  template <class Element>
  void list(Element* result, const PatchGrid& grid, int64_t place, int64_t count,
            Element** cells) const {
    const int64_t of_sample = layout_.blocks * layout_.area * layout_.block;
    PatchCursor at(grid, place);
    for (int64_t i = 0; i < count; ++i, at.advance(grid, 1)) {
      const int64_t y = result_.first[0] + at.row * result_.step[0];
      const int64_t x = result_.first[1] + at.column * result_.step[1];
      cells[i] = result + at.sample * of_sample + (y * result_.shape.width() + x) * layout_.block;
    }
  }

 private:
  bool fills_blocks() const;

  PatchResult result_;
  Blocking layout_;
  int64_t columns_;
  std::vector<int64_t> column_offsets_;  ///< set if vectors of channels are not contiguous
};

}  // namespace poseidon::layers::cpu::product
