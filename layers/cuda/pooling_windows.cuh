#pragma once

#include <algorithm>

#include "layers/cuda/divisor.cuh"
#include "layers/pooling.h"

/// The positions of pooling windows, and the assignment of positions to threads.
namespace poseidon::layers::cuda {

/// The cells of the input that a window contains along one axis: [begin, end). `origin` is the
/// first cell of the window, padding included; it may be negative.
struct PoolingWindow {
  int32_t origin, begin, end;
};

/// The windows along one axis: `output` windows of `kernel` cells, over `input` cells with
/// `padding` cells before them.
struct PoolingAxis {
  int32_t input, output, kernel, padding;
  Divisor stride;

  /// The first cell of window `o`, padding included; it may be negative.
  constexpr int32_t origin(int32_t o) const {
    return o * static_cast<int32_t>(stride.value()) - padding;
  }
  POSEIDON_DEVICE PoolingWindow window(int32_t o) const {
    const int32_t first = origin(o), end = first + kernel;
    return {first, first > 0 ? first : 0, end < input ? end : input};
  }
  /// The windows that contain a cell are [first_holding, end_holding).
  POSEIDON_DEVICE int32_t first_holding(int32_t cell) const {
    const int32_t past = cell + padding - kernel;
    return past < 0 ? 0 : static_cast<int32_t>(stride.quotient(static_cast<uint32_t>(past)) + 1);
  }
  POSEIDON_DEVICE int32_t end_holding(int32_t cell) const {
    const auto end =
        static_cast<int32_t>(stride.quotient(static_cast<uint32_t>(cell + padding)) + 1);
    return end < output ? end : output;
  }
  /// Number of cells of a window that lie in the padded input, along this axis. `after`: cells of
  /// padding after the input. Only the last window (`last`) may extend beyond the padding.
  int64_t cells(bool last, int64_t after) const {
    return std::min<int64_t>(kernel, input + after - origin(last ? output - 1 : 0));
  }
};

inline PoolingAxis axis_of(const Pooling& pooling, int axis) {
  const auto i = static_cast<size_t>(axis);
  return {.input = static_cast<int32_t>(pooling.input[2 + axis]),
          .output = static_cast<int32_t>(pooling.output[2 + axis]),
          .kernel = static_cast<int32_t>(pooling.kernel[i]),
          .padding = static_cast<int32_t>(pooling.padding.before[i]),
          .stride = Divisor(static_cast<uint32_t>(pooling.stride[i]))};
}

/// The geometry of a pooling layer. For adaptive average pooling, see EvenPlan.
struct PoolingPlan {
  PoolingAxis rows, columns;
  uint32_t samples, channels;
  /// Weight of each cell in a mean: 1 / (cells of the window in the padded input). First index: 1
  /// for the last row of windows, else 0. Second index: 1 for the last column, else 0.
  float shares[2][2];

  int64_t inputs() const { return int64_t{samples} * rows.input * columns.input * channels; }
  int64_t outputs() const { return int64_t{samples} * rows.output * columns.output * channels; }
  POSEIDON_DEVICE float share(int32_t row, int32_t column) const {
    return shares[row + 1 == rows.output ? 1 : 0][column + 1 == columns.output ? 1 : 0];
  }
};

inline PoolingPlan plan_of(const Pooling& pooling) {
  PoolingPlan plan{.rows = axis_of(pooling, 0),
                   .columns = axis_of(pooling, 1),
                   .samples = static_cast<uint32_t>(pooling.input.samples()),
                   .channels = static_cast<uint32_t>(pooling.input.channels()),
                   .shares = {}};
  for (const bool last_row : {false, true})
    for (const bool last_column : {false, true})
      plan.shares[last_row][last_column] =
          1 / static_cast<float>(plan.rows.cells(last_row, pooling.padding.after[0]) *
                                 plan.columns.cells(last_column, pooling.padding.after[1]));
  return plan;
}

/// A position (y, x) in a sample, and the group of channels that one thread processes there.
struct PoolingSite {
  uint32_t group, sample;
  int32_t y, x;
};

/// Converts the index of a thread or block to a site. The group varies fastest, then x, y and the
/// sample.
struct PoolingSites {
  Divisor groups, width, height;

  PoolingSites(int64_t groups_of_position, int32_t rows, int32_t columns)
      : groups(static_cast<uint32_t>(groups_of_position)),
        width(static_cast<uint32_t>(columns)),
        height(static_cast<uint32_t>(rows)) {}

  POSEIDON_DEVICE PoolingSite site(uint32_t index) const {
    PoolingSite site;
    site.group = groups.take_from(index);
    site.x = static_cast<int32_t>(width.take_from(index));
    site.y = static_cast<int32_t>(height.take_from(index));
    site.sample = index;
    return site;
  }
};

}  // namespace poseidon::layers::cuda
