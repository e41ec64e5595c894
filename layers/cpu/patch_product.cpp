#include "layers/cpu/patch_product.h"

#include <algorithm>
#include <utility>

namespace poseidon::layers::cpu::product {

PatchProduct::PatchProduct(Patches patches, const PatchResult& result)
    : patches_(std::move(patches)),
      result_(result),
      layout_(result.shape, result.layout),
      columns_(result.channels),
      depths_(std::max<int64_t>(1, pieces(patches_.columns(), kDepth))) {
  if (result.layout != Layout::kChannelsLast) {
    if (fills_blocks())
      columns_ = pieces(columns_, kLanes) * kLanes;
    else
      for (int64_t channel = 0; channel < columns_; ++channel)
        column_offsets_.push_back(layout_.offset(0, result.first_channel + channel, 0) -
                                  layout_.offset(0, result.first_channel, 0));
  }
  strips_ = pieces(columns_, kColumns);
}

/// Whether the result's channels fill blocks of one vector each, so that no other product writes to
/// these blocks. The last block may include padding.
bool PatchProduct::fills_blocks() const {
  const int64_t end = result_.first_channel + result_.channels;
  return layout_.block == kLanes && result_.first_channel % kLanes == 0 &&
         (end % kLanes == 0 || end == layout_.channels);
}

int64_t PatchProduct::depth_begin(int64_t depth) const {
  return patches_.columns() * depth / depths_;
}

void PatchProduct::pack_weight(int64_t panel, const PatchWeight& weight, float* panels) const {
  const int64_t depth = panel / strips_, strip = panel % strips_;
  float* to = panels + panel * kPanelOfB;
  for (int64_t column = depth_begin(depth); column < depth_begin(depth + 1);
       ++column, to += kLanes) {
    const Tap& tap = patches_.grid().taps[static_cast<size_t>(column / patches_.channels())];
    const float* row = weight.data + tap.index * weight.tap_step +
                       column % patches_.channels() * weight.channel_step;
    for (int64_t v = 0; v < kVectors; ++v) {
      const int64_t first = strip * kColumns + v * kLanes;
      for (int64_t lane = 0; lane < kLanes; ++lane)
        to[v * kDepth * kLanes + lane] =
            first + lane < result_.channels ? row[(first + lane) * weight.result_step] : 0.0F;
    }
  }
}

int64_t PatchProduct::tasks() const { return pieces(patches_.places(), kTiles * kRows); }

void PatchProduct::run(int64_t task, const Memory& memory) const {
  const int64_t begin = task * kTiles * kRows;
  const int64_t end = std::min(begin + kTiles * kRows, patches_.places());
  const Cells cells = cells_at(memory.result, begin, end);
  for (int64_t depth = 0; depth < depths_; ++depth) {
    const int64_t first = depth_begin(depth), count = depth_begin(depth + 1) - first;
    for (int64_t place = begin; place < end; place += kRows)
      copy_patches(memory.source, place, first, count,
                   memory.scratch + (place - begin) / kRows * kPanelOfA);
    for (int64_t strip = 0; strip < strips_; ++strip) {
      const Start start{
          .memory = depth > 0,
          .values = memory.bias == nullptr ? nullptr : memory.bias + strip * kColumns};
      const float* relu = memory.relu && depth + 1 == depths_ ? &*memory.relu : nullptr;
      for (int64_t place = begin; place < end; place += kRows)
        multiply_tile(patches_.by_channels() ? OrderOfA::kByRows : OrderOfA::kByDepth,
                      memory.scratch + (place - begin) / kRows * kPanelOfA,
                      memory.panels + (depth * strips_ + strip) * kPanelOfB, count, start,
                      tile_of(&cells[static_cast<size_t>(place - begin)], end - place, strip),
                      relu);
    }
  }
}

void PatchProduct::copy_patches(const float* source, int64_t place, int64_t begin, int64_t depth,
                                float* panel) const {
  const Patches::Piece piece{.place = place,
                             .places = std::min(kRows, patches_.places() - place),
                             .column = begin,
                             .columns = depth};
  if (patches_.by_channels())
    patches_.copy_rows(source, piece, panel, kRowStep);
  else
    patches_.copy_columns(source, piece, panel, kRows);
}

PatchProduct::Cells PatchProduct::cells_at(float* result, int64_t begin, int64_t end) const {
  const PatchGrid& grid = patches_.grid();
  const int64_t of_sample = layout_.blocks * layout_.area * layout_.block;
  Cells cells;
  PatchCursor at(grid, begin);
  for (int64_t place = begin; place < end; ++place, at.advance(grid, 1)) {
    const int64_t y = result_.first[0] + at.row * result_.step[0];
    const int64_t x = result_.first[1] + at.column * result_.step[1];
    cells[static_cast<size_t>(place - begin)] =
        result + at.sample * of_sample + (y * result_.shape.width() + x) * layout_.block;
  }
  return cells;
}

Tile PatchProduct::tile_of(float* const* cells, int64_t count, int64_t strip) const {
  const int64_t column = strip * kColumns;
  Tile tile{.row_count = std::min(kRows, count),
            .columns = std::min(kColumns, columns_ - column),
            .vector_step =
                result_.layout == Layout::kChannelsLast ? kLanes : layout_.area * layout_.block};
  const int64_t channel = result_.first_channel + (column_offsets_.empty() ? column : 0);
  const int64_t offset = layout_.offset(0, channel, 0);
  for (int64_t row = 0; row < tile.row_count; ++row)
    tile.rows[static_cast<size_t>(row)] = cells[row] + offset;
  if (!column_offsets_.empty()) tile.column_offsets = column_offsets_.data() + column;
  return tile;
}

}  // namespace poseidon::layers::cpu::product
