#include "layers/cpu/patch_weight.h"

#include <algorithm>
#include <array>

#include "layers/cpu/lane_masks.h"
#include "layers/cpu/product.h"
#include "layers/cpu/transpose.h"

namespace poseidon::layers::cpu::product {

namespace {

/// Copies `depth` rows of `lanes` results to vectors. Lanes without a result become zero.
void copy_results(const float* from, int64_t channel_step, int64_t depth, int64_t lanes,
                  float* to) {
  for (int64_t k = 0; k < depth; ++k, from += channel_step, to += kLanes) {
    if (lanes == kLanes) {
      copy_row<kLanes>(from, to);
      continue;
    }
    std::copy_n(from, lanes, to);
    std::fill(to + lanes, to + kLanes, 0.0F);
  }
}

/// Transposes a square of kLanes rows.
void transpose_weights(const float* from, int64_t step, int64_t count, float* to) {
  VectorOfBlock square[kLanes];
#pragma GCC unroll 16
  for (int64_t row = 0; row < kLanes; ++row) square[row] = load<VectorOfBlock>(from + row * step);
  transpose_square(square);
  if (count == kLanes) {
#pragma GCC unroll 16
    for (int64_t row = 0; row < kLanes; ++row) store(to + row * kLanes, square[row]);
  } else {
    for (int64_t row = 0; row < count; ++row) store(to + row * kLanes, square[row]);
  }
}

/// Like copy_results, for a weight whose channels are contiguous.
void transpose_results(const float* from, int64_t result_step, int64_t depth, int64_t lanes,
                       float* to) {
  for (int64_t begin = 0; begin < depth; begin += kLanes) {
    const int64_t count = std::min(kLanes, depth - begin);
    if (count == kLanes && lanes == kLanes) {
      transpose_weights(from + begin, result_step, count, to + begin * kLanes);
      continue;
    }
    alignas(64) std::array<float, static_cast<size_t>(kLanes * kLanes)> square{};
    for (int64_t lane = 0; lane < lanes; ++lane)
      std::copy_n(from + lane * result_step + begin, count,
                  &square[static_cast<size_t>(lane * kLanes)]);
    transpose_weights(square.data(), kLanes, count, to + begin * kLanes);
  }
}

/// Copies a piece of a weight of several groups.
void copy_groups(const PatchWeight& order, const Patches& patches, const float* weight,
                 const WeightPiece& piece, float* to) {
  std::fill_n(to, (piece.end - piece.begin) * kLanes, 0.0F);
  for (int64_t row = piece.begin; row < piece.end; ++row, to += kLanes) {
    const Tap& tap = patches.grid().taps[static_cast<size_t>(row / patches.channels())];
    const int64_t channel = row % patches.channels(), group = channel / order.channels;
    const float* from = weight + tap.index * order.tap_step + group * order.group_step +
                        channel % order.channels * order.channel_step;
    const int64_t first = group * order.results;
    const int64_t end = std::min(first + order.results, piece.result + piece.lanes);
    for (int64_t result = std::max(first, piece.result); result < end; ++result)
      to[result - piece.result] = from[(result - first) * order.result_step];
  }
}

}  // namespace

void copy_weight(const PatchWeight& order, const Patches& patches, const float* weight,
                 const WeightPiece& piece, float* to) {
  if (order.channels > 0) return copy_groups(order, patches, weight, piece, to);
  for (int64_t row = piece.begin; row < piece.end;) {
    const int64_t channel = row % patches.channels();
    const int64_t count = std::min(patches.channels() - channel, piece.end - row);
    const Tap& tap = patches.grid().taps[static_cast<size_t>(row / patches.channels())];
    const float* from = weight + tap.index * order.tap_step + channel * order.channel_step +
                        piece.result * order.result_step;
    if (order.result_step == 1)
      copy_results(from, order.channel_step, count, piece.lanes, to);
    else
      transpose_results(from, order.result_step, count, piece.lanes, to);
    to += count * kLanes;
    row += count;
  }
}

}  // namespace poseidon::layers::cpu::product
