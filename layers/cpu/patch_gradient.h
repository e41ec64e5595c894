#pragma once

#include <cstdint>
#include <vector>

#include "layers/cpu/patch_window.h"

namespace poseidon::layers::cpu::product {

/// Computes the gradient of a convolution's weight: for each group, patches of the input^T times
/// the output's gradient. The gradient is in the order [group's patch column][group][output].
///
/// The tasks divide the elements of the gradient. If there are few elements, tasks also divide the
/// places into ranges, called slices here, which depend only on the geometry. The caller adds the
/// sums of the slices in order. Any thread may run any task.
class PatchGradient {
 public:
  using Element = float;
  /// kInOrder: one slice, so that each element is one chain of multiply-adds.
  enum class Sums : uint8_t { kOfSlices, kInOrder };

  /// For each group, the patches of the input, and the cells of the output's gradient as patches of
  /// one tap. `threads`: the number of threads that run the tasks. Only the size of the tasks
  /// depends on it.
  PatchGradient(std::vector<Patches> inputs, std::vector<Patches> gradients, Sums sums,
                int64_t threads);

  int64_t slices() const { return slices_; }
  int64_t tasks() const { return static_cast<int64_t>(tasks_.size()); }
  /// The number of elements of the weight.
  int64_t elements() const { return inputs_[0].columns() * all_outputs(); }
  int64_t scratch_bytes() const;

  struct Memory {
    const float *input, *gradient;
    float* const* slices;  ///< the result of each slice, elements() floats
    std::byte* scratch;    ///< scratch_bytes() bytes of the calling thread
  };
  void run(int64_t task, const Memory& memory) const;

 private:
  struct Task {
    size_t group;
    int64_t first_row, last_row, column, slice;
  };
  /// Places that a task adds to its sums in one pass.
  struct Depth {
    int64_t place, count;
    bool is_first;
  };

  void divide(Sums sums, int64_t threads);
  int64_t outputs() const { return gradients_[0].columns(); }
  int64_t all_outputs() const { return outputs() * static_cast<int64_t>(gradients_.size()); }
  void run_depth(const Task& task, const Depth& depth, const Memory& memory) const;
  void copy_inputs(const Task& task, const Depth& depth, int64_t row, const Memory& memory,
                   float* panel) const;

  std::vector<Patches> inputs_, gradients_;  ///< the patches of each group
  std::vector<PatchWindow> windows_;         ///< of each group; empty: not plain, or too large
  int64_t area_;                             ///< cells of a sample of the output
  bool in_place_;                            ///< tiles read the output's gradient without a copy
  int64_t slices_ = 1;
  std::vector<Task> tasks_;
};

}  // namespace poseidon::layers::cpu::product
