#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "layers/cpu/bf16_patches.h"
#include "layers/cpu/bf16_product.h"
#include "layers/cpu/patch_weight.h"
#include "layers/cpu/result_cells.h"

namespace poseidon::layers::cpu::product {

/// Like PatchProduct, for bf16 activations: the weight is rounded to bf16, and the sums are fp32
/// (layers/cpu/bf16_product.h). Requires AVX-512.
class Bf16PatchProduct {
 public:
  using Element = Bf16;

  /// Columns of the matrix of patches that a step of the product multiplies, at most kUnitOfBf16,
  /// and their offset in a row. Other elements of the row up to kUnitOfBf16 are multiplied by zero.
  struct Unit {
    int64_t begin, end, offset;
  };

  /// `threads`: the number of threads that run the tasks. Only the size of the tasks depends on it.
  Bf16PatchProduct(Patches patches, const PatchWeight& weight, const PatchResult& result,
                   int64_t threads);

  /// Panels of the weight. All panels must be packed before run(). Any thread may pack any panel.
  int64_t weight_panels() const { return depths_ * strips_; }
  int64_t weight_elements() const { return weight_panels() * kPanelOfWeight; }
  void pack_weight(int64_t panel, const float* weight, Bf16* panels) const;

  struct Memory {
    const Bf16* source;
    const float* weight;  ///< not used
    const Bf16* panels;
    const float* bias;          ///< of each result channel, padded to whole tiles; nullptr: none
    std::optional<float> relu;  ///< the negative slope of a relu on the result
    Bf16* result;
    std::byte* scratch;  ///< scratch_bytes() bytes of the calling thread
  };
  int64_t tasks() const { return ranges_of_rows_ * ranges_of_strips_; }
  void run(int64_t task, const Memory& memory) const;
  int64_t scratch_bytes() const;

 private:
  static constexpr int64_t kUnitsOfDepth = kContiguousUnits.size();  ///< units of a panel, at most
  static constexpr int64_t kVectorsOfStrip = 2;
  static constexpr int64_t kVectorOfWeight = kUnitsOfDepth * kUnitOfBf16 * kLanesOfBlock;
  static constexpr int64_t kPanelOfWeight = kVectorsOfStrip * kVectorOfWeight;

  /// A range of rows of the product, of strips of columns, or of units.
  struct Range {
    int64_t begin, end;
    int64_t count() const { return end - begin; }
  };
  /// The thread's memory: sums, a panel of patches, then a window or padded cells.
  struct Room {
    float* sums;
    Bf16* patches;
    Bf16* window;
  };

  void choose_units();
  void divide(int64_t threads);
  int64_t rows() const { return padded_ ? padded_->positions() : patches_.patches().places(); }
  int64_t rows_of_task() const;
  int64_t patch_elements() const;
  int64_t sum_floats() const;
  Range units_of(int64_t depth) const;
  Room room(std::byte* scratch) const;
  void list_cells(Range group, Bf16* result, Bf16** cells) const;
  Bf16Rows copy_patches(const Bf16Patches::Source& source, Range group, Range units,
                        const Room& room) const;
  void run_group(const Memory& memory, const Bf16Patches::Source& source, Range group, Range strips,
                 const Room& room, const Bf16Multiplier& multiplier) const;
  void store_strip(const Memory& memory, std::span<Bf16* const> cells, int64_t strip,
                   const float* sums) const;

  Bf16Patches patches_;
  PatchWeight weight_;
  int64_t channels_;  ///< channels of the result
  ResultCells cells_;
  int64_t strips_, depths_ = 1;
  std::optional<PaddedCells> padded_;  ///< rows of the product are its positions, else places
  std::vector<Unit> units_;
  std::vector<int64_t> offsets_;  ///< of the units
  int64_t row_step_ = 0, rows_of_group_ = 0;
  int64_t ranges_of_rows_ = 1, ranges_of_strips_ = 1;  ///< each pair of ranges is a task
};

}  // namespace poseidon::layers::cpu::product
