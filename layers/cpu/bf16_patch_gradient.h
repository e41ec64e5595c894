#pragma once

#include <cstdint>
#include <vector>

#include "layers/cpu/bf16_patches.h"
#include "layers/cpu/bf16_product.h"
#include "layers/cpu/cell_pairs.h"

namespace poseidon::layers::cpu::product {

/// Like PatchGradient, for bf16 activations: products of bf16 numbers with fp32 sums
/// (layers/cpu/bf16_product.h). With a bias, the patches have one more column, which is 1 at all
/// places. Its gradient, the last row, is that of the bias. Requires AVX-512.
class Bf16PatchGradient {
 public:
  using Element = Bf16;

  /// For each product, the patches of the input, and the cells of the output's gradient as patches
  /// of one tap. A product computes `together` groups of the convolution. `threads`: the number of
  /// threads that run the tasks. Only the size of the tasks depends on it.
  Bf16PatchGradient(std::vector<Patches> inputs, std::vector<Patches> gradients, int64_t together,
                    bool bias, int64_t threads);

  int64_t slices() const { return slices_; }
  int64_t tasks() const { return static_cast<int64_t>(tasks_.size()); }
  /// The number of elements of the weight, and of the bias.
  int64_t elements() const { return (columns() / together_ + (bias_ ? 1 : 0)) * all_outputs(); }
  int64_t scratch_bytes() const;

  struct Memory {
    const Bf16 *input, *gradient;
    float* const* slices;  ///< the result of each slice, elements() floats
    std::byte* scratch;    ///< scratch_bytes() bytes of the calling thread
  };
  void run(int64_t task, const Memory& memory) const;

 private:
  struct Task {
    size_t group;
    int64_t first_strip, last_strip, output, slice;
  };
  struct Range {
    int64_t begin, end;
  };
  /// Positions that a task adds to its sums in one pass.
  struct Depth {
    int64_t block;  ///< the first position of the block
    int64_t position, count;
    bool is_first;
  };
  /// The thread's memory.
  struct Room {
    float* sums;      ///< [strip][output][column of the strip]
    Bf16* gradients;  ///< [output][position]
    Bf16* rows;       ///< [position][column of a strip]
    Bf16* panel;      ///< the rows as a panel of B
    Bf16* window;     ///< of the gradient, then of the input or pairs of its padded cells
  };

  void choose_strips();
  void divide(int64_t threads);
  int64_t columns() const { return inputs_[0].patches().columns(); }
  int64_t rows() const { return columns() + (bias_ ? 1 : 0); }
  int64_t positions() const {
    return pairs_.empty() ? inputs_[0].patches().places() : pairs_[0].padded().positions();
  }
  int64_t outputs() const { return gradients_[0].patches().columns(); }
  int64_t all_outputs() const { return outputs() * static_cast<int64_t>(gradients_.size()); }
  int64_t outputs_of_task() const;
  int64_t outputs_of(const Task& task) const;
  int64_t sum_floats() const;
  int64_t gradient_elements() const;
  Room room(std::byte* scratch) const;
  void run_depth(const Task& task, const Depth& depth, const Memory& memory, const Room& room,
                 const Bf16Multiplier& multiplier) const;
  void transpose_gradients(const Task& task, const Depth& depth, const Memory& memory,
                           const Room& room) const;
  void copy_gradients(const Task& task, const Depth& depth, int64_t row,
                      const Bf16Patches::Source& source, Bf16* to) const;
  Bf16Panel panel_of(const Task& task, const Depth& depth, const PatchStrip& strip,
                     const Bf16Patches::Source& source, const Room& room) const;
  int64_t row_of_weight(int64_t row) const;
  Range outputs_of_row(int64_t row) const;
  void store_sums(const Task& task, const float* sums, float* gradient) const;

  std::vector<Bf16Patches> inputs_, gradients_;  ///< the patches of each product
  std::vector<CellPairs> pairs_;                 ///< of each input; empty: panels of patches
  int64_t together_;
  bool bias_;
  std::vector<PatchStrip> strips_;  ///< the bias follows the columns
  int64_t slices_ = 1, strips_of_task_ = 1;
  std::vector<Task> tasks_;
};

}  // namespace poseidon::layers::cpu::product
