#pragma once

#include "layers/cuda/channels.cuh"
#include "layers/cuda/pooling_windows.cuh"

/// Adaptive average pooling: the mean over windows that divide the input evenly (EvenWindows), and
/// its gradient.
namespace poseidon::layers::cuda {

/// EvenWindows over one axis. cells * windows is at most 2^31 (Pooling::infer), so the 32-bit
/// products below do not overflow.
struct EvenAxis {
  Divisor cells, windows;

  explicit EvenAxis(const EvenWindows& even)
      : cells(static_cast<uint32_t>(even.cells)), windows(static_cast<uint32_t>(even.windows)) {}

  POSEIDON_DEVICE uint32_t begin(uint32_t window) const {
    return windows.quotient(window * cells.value());
  }
  POSEIDON_DEVICE uint32_t end(uint32_t window) const {
    return windows.quotient((window + 1) * cells.value() + windows.value() - 1);
  }
  /// The windows that contain a cell are [first_holding, end_holding).
  POSEIDON_DEVICE uint32_t first_holding(uint32_t cell) const {
    return cells.quotient(cell * windows.value());
  }
  POSEIDON_DEVICE uint32_t end_holding(uint32_t cell) const {
    return cells.quotient((cell + 1) * windows.value() + cells.value() - 1);
  }
};

/// The geometry of an adaptive average pooling layer.
struct EvenPlan {
  EvenAxis rows, columns;
  uint32_t samples, channels;

  explicit EvenPlan(const Pooling& pooling)
      : rows(pooling.even_windows(0)),
        columns(pooling.even_windows(1)),
        samples(static_cast<uint32_t>(pooling.input.samples())),
        channels(static_cast<uint32_t>(pooling.input.channels())) {}

  int64_t inputs() const {
    return int64_t{samples} * rows.cells.value() * columns.cells.value() * channels;
  }
  int64_t outputs() const {
    return int64_t{samples} * rows.windows.value() * columns.windows.value() * channels;
  }
  /// Returns the weight of each cell in the mean of a window: 1 / (cells of the window).
  POSEIDON_DEVICE float share(uint32_t row, uint32_t column) const {
    const uint32_t height = rows.end(row) - rows.begin(row);
    const uint32_t width = columns.end(column) - columns.begin(column);
    return 1 / static_cast<float>(height * width);
  }
};

/// A thread computes the mean of a window for a group of channels.
template <class Element, int kWidth>
struct EvenPoolingKernel {
  static constexpr const char* kName = "pooling of even windows";
  static constexpr uint32_t kThreads = 256;

  EvenPlan plan;
  PoolingSites sites;  ///< positions of the output
  const Element* in;
  Element* out;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(in, bytes_of_elements<Element>(plan.inputs()));
    visitor.writes(out, bytes_of_elements<Element>(plan.outputs()));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const uint32_t index = thread.block() * kThreads + thread.thread();
    const PoolingSite site = sites.site(index);
    if (site.sample >= plan.samples) return;
    const auto row = static_cast<uint32_t>(site.y), column = static_cast<uint32_t>(site.x);
    Channels<kWidth> sum{};
    for (uint32_t y = plan.rows.begin(row); y < plan.rows.end(row); ++y) {
      const int64_t line =
          (int64_t{site.sample} * plan.rows.cells.value() + y) * plan.columns.cells.value();
#pragma unroll 1
      for (uint32_t x = plan.columns.begin(column); x < plan.columns.end(column); ++x) {
        const auto cell =
            load_channels<kWidth>(in + (line + x) * plan.channels + site.group * kWidth);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) sum[i] += cell[i];
      }
    }
    const float share = plan.share(row, column);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum[i] *= share;
    store_channels<kWidth>(out + int64_t{index} * kWidth, sum);
  }
};

/// A thread computes the gradient of one input cell for a group of channels. The thread sums over
/// the windows that contain the cell, in the order of the windows.
template <class Element, int kWidth>
struct EvenPoolingBackwardKernel {
  static constexpr const char* kName = "gradient of even pooling";
  static constexpr uint32_t kThreads = 256;

  EvenPlan plan;
  PoolingSites sites;       ///< positions of the input
  const Element* gradient;  ///< gradient of the output
  Element* target;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(gradient, bytes_of_elements<Element>(plan.outputs()));
    visitor.writes(target, bytes_of_elements<Element>(plan.inputs()));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const uint32_t index = thread.block() * kThreads + thread.thread();
    const PoolingSite site = sites.site(index);
    if (site.sample >= plan.samples) return;
    const auto y = static_cast<uint32_t>(site.y), x = static_cast<uint32_t>(site.x);
    const uint32_t bottom = plan.rows.end_holding(y), right = plan.columns.end_holding(x);
    Channels<kWidth> sum{};
    for (uint32_t row = plan.rows.first_holding(y); row < bottom; ++row) {
      const int64_t line =
          (int64_t{site.sample} * plan.rows.windows.value() + row) * plan.columns.windows.value();
#pragma unroll 1
      for (uint32_t column = plan.columns.first_holding(x); column < right; ++column) {
        const float share = plan.share(row, column);
        const auto values =
            load_channels<kWidth>(gradient + (line + column) * plan.channels + site.group * kWidth);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) sum[i] += values[i] * share;
      }
    }
    store_channels<kWidth>(target + int64_t{index} * kWidth, sum);
  }
};

}  // namespace poseidon::layers::cuda
