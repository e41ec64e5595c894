#pragma once

#include <cstdint>
#include <vector>

#include "layers/convolution.h"

namespace poseidon::layers::cpu {

/// One axis of a pass of a convolution: which cells of its source make a cell of its target.
/// Strides part the cells of one of them, so that those of an input's gradient fall into phases, to
/// each of which other taps of the kernel give. Cell `first + target_step * i` of a phase is the
/// sum over its taps of the kernel's cell `kernel` times the source's cell `source_step * i +
/// shift`, which is zero where there is no such cell.
struct StencilAxis {
  struct Tap {
    int64_t shift, kernel;
  };
  struct Phase {
    int64_t first, count;
    std::vector<Tap> taps = {};  ///< may be none
  };

  /// The output, made of the input: one phase.
  static StencilAxis of_forward(const Convolution& convolution, size_t axis);
  /// The input's gradient, made of the output's: as many phases as the stride has cells.
  static StencilAxis of_backward_data(const Convolution& convolution, size_t axis);

  int64_t source = 0, target = 0;  ///< cells
  int64_t source_step = 1, target_step = 1;
  std::vector<Phase> phases = {};

  int64_t most_in_phase() const { return phases.front().count; }
  int64_t least_shift() const;
  /// Cells of the source, from the one at least_shift() on, that `count` cells of each phase reach.
  int64_t reach(int64_t count) const;
};

}  // namespace poseidon::layers::cpu
