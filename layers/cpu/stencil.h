#pragma once

#include <cstdint>
#include <vector>

#include "layers/convolution.h"

namespace poseidon::layers::cpu {

/// One axis of a convolution pass: the source cells from which each target cell is computed. With a
/// stride, the cells of the input's gradient fall into phases. Each phase has different taps of the
/// kernel. Cell `first + target_step * i` of a phase is a sum over the taps of that phase. A term
/// is the kernel's cell `kernel` times the source's cell `source_step * i + shift`. Source cells
/// that do not exist are zero.
struct StencilAxis {
  struct Tap {
    int64_t shift, kernel;
  };
  struct Phase {
    int64_t first, count;
    std::vector<Tap> taps = {};  ///< may be empty
  };

  /// The axis of the forward pass. It has one phase.
  static StencilAxis of_forward(const Convolution& convolution, size_t axis);
  /// The axis of the pass that computes the input's gradient from the output's gradient. It has up
  /// to `stride` phases.
  static StencilAxis of_backward_data(const Convolution& convolution, size_t axis);

  int64_t source = 0, target = 0;  ///< cells
  int64_t source_step = 1, target_step = 1;
  std::vector<Phase> phases = {};

  int64_t most_in_phase() const { return phases.front().count; }
  int64_t least_shift() const;
  /// The number of source cells, from the cell at least_shift() on, that `count` cells of each
  /// phase read.
  int64_t reach(int64_t count) const;
};

}  // namespace poseidon::layers::cpu
