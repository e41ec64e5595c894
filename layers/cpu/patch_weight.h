#pragma once

#include <cstdint>

#include "layers/cpu/patches.h"

namespace poseidon::layers::cpu::product {

/// The order of a weight. The element of tap t, channel c of the patch and channel r of the result
/// is at t * tap_step + c * channel_step + r * result_step. channel_step or result_step is 1.
///
/// If the patches have the channels of several groups, of `channels` channels and `results` results
/// each, c and r count within a group, and the elements of group g are g * group_step further.
/// Elements of channels and results of different groups are zero.
struct PatchWeight {
  int64_t tap_step, channel_step, result_step;
  int64_t group_step = 0, channels = 0, results = 0;
};

/// A part of a weight as a matrix with the patches' columns as rows: rows [begin, end), and `lanes`
/// results from `result` on.
struct WeightPiece {
  int64_t begin, end, result, lanes;
};

/// Copies a piece to [row][kLanesOfBlock]. Lanes without a result become zero.
void copy_weight(const PatchWeight& order, const Patches& patches, const float* weight,
                 const WeightPiece& piece, float* to);

}  // namespace poseidon::layers::cpu::product
