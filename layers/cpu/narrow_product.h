#pragma once

#include <cstdint>
#include <optional>

#include "layers/cpu/patch_product.h"
#include "layers/cpu/tap_planes.h"

namespace poseidon::layers::cpu::product {

/// Computes the same bits as PatchProduct, for a result of few channels. A lane of a vector is a
/// place, not a channel. Any thread may run any task.
class NarrowProduct {
 public:
  using Element = float;
  using Memory = PatchProduct::Memory;

  /// The arguments are those of PatchProduct.
  NarrowProduct(Patches patches, const PatchWeight& weight, const PatchResult& result,
                int64_t threads);

  /// Whether this class computes a product faster than PatchProduct.
  static bool is_faster(const Patches& patches, int64_t channels);

  int64_t weight_panels() const { return 1; }
  int64_t weight_elements() const;
  /// Copies the weight to [tap][channel][result channel].
  void pack_weight(int64_t panel, const float* weight, float* panels) const;
  int64_t tasks() const { return ranges_of_samples_ * ranges_of_rows_; }
  void run(int64_t task, const Memory& memory) const;
  int64_t scratch_bytes() const;

 private:
  void divide(int64_t threads);
  int64_t padded_extent(const GridRows& range) const;
  GridRows largest_task() const;
  void multiply(const Memory& memory, const GridRows& range, const float* planes,
                float* sums) const;
  void copy_sums(const Memory& memory, const GridRows& range, const float* sums) const;

  Patches patches_;
  TapPlanes planes_;
  PatchWeight weight_;
  int64_t channels_;  ///< channels of the result
  ResultCells cells_;
  int64_t ranges_of_samples_ = 1, ranges_of_rows_ = 1;
};

}  // namespace poseidon::layers::cpu::product
