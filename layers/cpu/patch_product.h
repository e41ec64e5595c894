#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "layers/cpu/patch_weight.h"
#include "layers/cpu/patch_window.h"
#include "layers/cpu/result_cells.h"

namespace poseidon::layers::cpu::product {

/// Computes channels of an activation as the product of the patches of another activation and a
/// weight. Any thread may run any task.
class PatchProduct {
 public:
  using Element = float;

  /// `threads`: the number of threads that run the tasks. Only the size of the tasks depends on it.
  PatchProduct(Patches patches, const PatchWeight& weight, const PatchResult& result,
               int64_t threads);

  /// Panels of the weight; 0 if tiles read the weight in place. All panels must be packed before
  /// run(). Any thread may pack any panel.
  int64_t weight_panels() const { return in_place_ ? 0 : depths_ * strips_; }
  int64_t weight_elements() const;
  void pack_weight(int64_t panel, const float* weight, float* panels) const;

  struct Memory {
    const float *source, *weight, *panels;
    const float* bias;          ///< of each result channel, padded to whole tiles; nullptr: none
    std::optional<float> relu;  ///< the negative slope of a relu on the result
    float* result;
    std::byte* scratch;  ///< scratch_bytes() bytes of the calling thread
  };
  int64_t tasks() const { return ranges_of_tiles_ * ranges_of_strips_; }
  void run(int64_t task, const Memory& memory) const;
  int64_t scratch_bytes() const;

 private:
  /// A range of tiles of places, or of strips of columns.
  struct Range {
    int64_t begin, end;
    int64_t count() const { return end - begin; }
  };

  bool weight_has_rows() const;
  void divide(int64_t threads);
  int64_t tiles() const;
  int64_t places_of_task() const;
  Range depth_range(int64_t depth) const;
  int64_t most_tiles_of_group() const;
  static float* panels_of_patches(const Memory& memory) {
    return reinterpret_cast<float*>(memory.scratch);
  }
  float* window(const Memory& memory) const;
  void copy_patches(const Memory& memory, Range places, Range tile, Range depth,
                    float* panel) const;
  void run_tiles(const Memory& memory, Range group, int64_t depth, Range strips) const;

  Patches patches_;
  std::optional<PatchWindow> window_;  ///< set if the source is plain and a window is not too large
  PatchWeight weight_;
  int64_t channels_;  ///< channels of the result
  ResultCells cells_;
  int64_t depths_, strips_;
  bool in_place_ = false;                               ///< tiles read the weight without a copy
  int64_t ranges_of_tiles_ = 1, ranges_of_strips_ = 1;  ///< each pair of ranges is a task
  int64_t tiles_of_group_ = 1;                          ///< tiles whose patches are copied together
};

}  // namespace poseidon::layers::cpu::product
