#include "layers/cpu/stencil.h"

#include <algorithm>
#include <limits>

namespace poseidon::layers::cpu {

namespace {

int64_t cells(const Shape& shape, size_t axis) { return shape[static_cast<int>(axis) + 2]; }

}  // namespace

StencilAxis StencilAxis::of_forward(const Convolution& c, size_t axis) {
  StencilAxis made{.source = cells(c.input, axis),
                   .target = cells(c.output, axis),
                   .source_step = c.stride[axis]};
  Phase all{.first = 0, .count = made.target};
  for (int64_t k = 0; k < c.kernel[axis]; ++k)
    all.taps.push_back({.shift = k * c.dilation[axis] - c.padding.before[axis], .kernel = k});
  made.phases.push_back(all);
  return made;
}

StencilAxis StencilAxis::of_backward_data(const Convolution& c, size_t axis) {
  const int64_t stride = c.stride[axis];
  StencilAxis made{
      .source = cells(c.output, axis), .target = cells(c.input, axis), .target_step = stride};
  for (int64_t first = 0; first < std::min(stride, made.target); ++first) {
    Phase phase{.first = first, .count = (made.target - first + stride - 1) / stride};
    for (int64_t k = 0; k < c.kernel[axis]; ++k) {
      const int64_t distance = first + c.padding.before[axis] - k * c.dilation[axis];
      if (distance % stride == 0) phase.taps.push_back({.shift = distance / stride, .kernel = k});
    }
    made.phases.push_back(phase);
  }
  return made;
}

int64_t StencilAxis::least_shift() const {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const Phase& phase : phases)
    for (const Tap& tap : phase.taps) least = std::min(least, tap.shift);
  return least;
}

int64_t StencilAxis::reach(int64_t count) const {
  int64_t greatest = std::numeric_limits<int64_t>::min();
  for (const Phase& phase : phases)
    for (const Tap& tap : phase.taps) greatest = std::max(greatest, tap.shift);
  return (count - 1) * source_step + greatest - least_shift() + 1;
}

}  // namespace poseidon::layers::cpu
