#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "layers/cpu/patches.h"
#include "layers/cpu/product.h"

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

/// A weight in memory. The element of tap t, channel c of the patch and channel r of the result is
/// at t * tap_step + c * channel_step + r * result_step.
struct PatchWeight {
  const float* data;
  int64_t tap_step, channel_step, result_step;
};

/// Computes channels of an activation as the product of the patches of another activation and a
/// weight. Any thread may run any task.
class PatchProduct {
 public:
  PatchProduct(Patches patches, const PatchResult& result);

  /// Panels of the weight. All panels must be packed before run(). Any thread may pack any panel.
  int64_t weight_panels() const { return depths_ * strips_; }
  int64_t weight_floats() const { return weight_panels() * kPanelOfB; }
  void pack_weight(int64_t panel, const PatchWeight& weight, float* panels) const;

  struct Memory {
    const float *source, *panels;
    const float* bias;          ///< of each result channel, padded to whole tiles; nullptr: none
    std::optional<float> relu;  ///< the negative slope of a relu on the result
    float* result;
    float* scratch;  ///< scratch_floats() floats of the calling thread
  };
  int64_t tasks() const;
  void run(int64_t task, const Memory& memory) const;
  static constexpr int64_t scratch_floats() { return kTiles * kPanelOfA; }

 private:
  /// Tiles of places in a task. Their panels fit in the second-level cache.
  static constexpr int64_t kTiles = 4;

  bool fills_blocks() const;
  int64_t depth_begin(int64_t depth) const;
  void copy_patches(const float* source, int64_t place, int64_t begin, int64_t depth,
                    float* panel) const;
  /// The addresses of the cells of a task's places, at channel 0.
  using Cells = std::array<float*, kTiles * kRows>;
  Cells cells_at(float* result, int64_t begin, int64_t end) const;
  Tile tile_of(float* const* cells, int64_t count, int64_t strip) const;

  Patches patches_;
  PatchResult result_;
  Blocking layout_;
  int64_t columns_;  ///< columns of the result, including the padding of its blocks
  int64_t depths_, strips_;
  std::vector<int64_t> column_offsets_;  ///< set if vectors of channels are not contiguous
};

}  // namespace poseidon::layers::cpu::product
