#pragma once

#include "layers/cuda/channels.cuh"
#include "layers/cuda/pooling_methods.cuh"
#include "layers/cuda/pooling_windows.cuh"

/// The backward pass of pooling, except for adaptive average pooling (pooling_even.cuh).
namespace poseidon::layers::cuda {

/// A thread computes the gradient of one input cell for a group of channels. The thread sums over
/// the windows that contain the cell, in the order of the windows.
template <class Element, int kWidth>
struct PoolingBackward {
  static constexpr uint32_t kThreads = 256;
  using Values = Channels<kWidth>;

  PoolingPlan plan;
  PoolingSites sites;
  const Element* gradient;  ///< gradient of the output
  Element* target;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(gradient, bytes_of_elements<Element>(plan.outputs()));
    visitor.writes(target, bytes_of_elements<Element>(plan.inputs()));
  }

  /// Calls add(sum, row, column, offset, site) for each window that contains the thread's cell, and
  /// then stores the sum. `row` and `column` are the position of the window in the output. `offset`
  /// is the index of the thread's first channel there. `site` is the thread's cell.
  template <class Add>
  POSEIDON_DEVICE void gather(const Thread& thread, const Add& add) const {
    const uint32_t index = thread.block() * kThreads + thread.thread();
    const PoolingSite site = sites.site(index);
    if (site.sample >= plan.samples) return;
    Values sum{};
    const int32_t bottom = plan.rows.end_holding(site.y);
    const int32_t right = plan.columns.end_holding(site.x);
    const int32_t left = plan.columns.first_holding(site.x);
    for (int32_t row = plan.rows.first_holding(site.y); row < bottom; ++row) {
      const int64_t line = (int64_t{site.sample} * plan.rows.output + row) * plan.columns.output;
      int64_t offset = (line + left) * plan.channels + site.group * kWidth;
#pragma unroll 1
      for (int32_t column = left; column < right; ++column, offset += plan.channels)
        add(sum, row, column, offset, site);
    }
    store_channels<kWidth>(target + int64_t{index} * kWidth, sum);
  }
};

template <class Element, int kWidth>
struct MeanPoolingBackwardKernel : PoolingBackward<Element, kWidth> {
  static constexpr const char* kName = "gradient of mean pooling";

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    this->gather(
        thread, [this](auto& sum, int32_t row, int32_t column, int64_t offset, const PoolingSite&) {
          const float share = this->plan.share(row, column);
          const auto values = load_channels<kWidth>(this->gradient + offset);
#pragma unroll
          for (int i = 0; i < kWidth; ++i) sum[i] += values[i] * share;
        });
  }
};

/// The backward pass of methods that select one cell of each window. A cell receives the gradients
/// of the windows that selected it.
template <class Element, int kWidth, class Place>
struct TakenPoolingBackwardKernel : PoolingBackward<Element, kWidth> {
  static constexpr const char* kName = "gradient of max pooling";

  const Place* places;

  void visit(MemoryVisitor& visitor) const {
    PoolingBackward<Element, kWidth>::visit(visitor);
    visitor.reads(places, bytes_of_elements<Place>(this->plan.outputs()));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    this->gather(thread, [this](auto& sum, int32_t row, int32_t column, int64_t offset,
                                const PoolingSite& site) {
      const PoolingAxis &rows = this->plan.rows, &columns = this->plan.columns;
      const int32_t y = site.y - rows.origin(row);
      const int32_t x = site.x - columns.origin(column);
      const auto here = static_cast<Place>(y * columns.kernel + x);
      const auto taken = *reinterpret_cast<const PoolingPlaces<Place, kWidth>*>(places + offset);
      const auto values = load_channels<kWidth>(this->gradient + offset);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sum[i] += taken.values[i] == here ? values[i] : 0;
    });
  }
};

}  // namespace poseidon::layers::cuda
