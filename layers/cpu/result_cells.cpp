#include "layers/cpu/result_cells.h"

namespace poseidon::layers::cpu::product {

ResultCells::ResultCells(const PatchResult& result)
    : result_(result), layout_(result.shape, result.layout), columns_(result.channels) {
  if (result.layout == Layout::kChannelsLast) return;
  if (fills_blocks()) {
    columns_ = (columns_ + kLanesOfBlock - 1) / kLanesOfBlock * kLanesOfBlock;
    return;
  }
  for (int64_t channel = 0; channel < columns_; ++channel)
    column_offsets_.push_back(layout_.offset(0, result.first_channel + channel, 0) -
                              layout_.offset(0, result.first_channel, 0));
}

/// Whether the result's channels fill blocks of one vector each, so that no other product writes to
/// these blocks. The last block may include padding.
bool ResultCells::fills_blocks() const {
  const int64_t end = result_.first_channel + result_.channels;
  return layout_.block == kLanesOfBlock && result_.first_channel % kLanesOfBlock == 0 &&
         (end % kLanesOfBlock == 0 || end == layout_.channels);
}

}  // namespace poseidon::layers::cpu::product
