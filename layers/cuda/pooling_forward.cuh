#pragma once

#include "layers/cuda/channels.cuh"
#include "layers/cuda/pooling_methods.cuh"
#include "layers/cuda/pooling_windows.cuh"

/// The forward pass of max and average pooling. Stochastic pooling also uses PoolingForward.
namespace poseidon::layers::cuda {

/// The common part of the forward kernels: their tensors, and the access to the cells of a window.
template <class Element, int kWidth, class Method>
struct PoolingForward {
  using Values = Channels<kWidth>;
  using Place = typename Method::Place;

  PoolingPlan plan;
  PoolingSites sites;
  const Element* in;
  Element* out;
  Place* places;  ///< receives the place of each output's selected cell; null: not stored

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(in, bytes_of_elements<Element>(plan.inputs()));
    visitor.writes(out, bytes_of_elements<Element>(plan.outputs()));
    if (places != nullptr) visitor.writes(places, bytes_of_elements<Place>(plan.outputs()));
  }

  /// Access to the cells of one window, in one group of channels.
  struct Reading {
    PoolingWindow row, column;
    const Element* plane;
    uint32_t channels;
    int32_t width;
    uint32_t kernel_width;

    POSEIDON_DEVICE const Element* at(int32_t y, int32_t x) const {
      return plane + (int64_t{y} * width + x) * channels;
    }
    POSEIDON_DEVICE Values cell(int32_t y, int32_t x) const {
      return load_channels<kWidth>(at(y, x));
    }
    POSEIDON_DEVICE uint32_t place(int32_t y, int32_t x) const {
      return static_cast<uint32_t>(y - row.origin) * kernel_width +
             static_cast<uint32_t>(x - column.origin);
    }
    /// The sum of the cells, in row-major order.
    POSEIDON_DEVICE Values sum() const {
      Values sum{};
      for (int32_t y = row.begin; y < row.end; ++y) {
#pragma unroll 2
        for (int32_t x = column.begin; x < column.end; ++x) {
          const Values values = cell(y, x);
#pragma unroll
          for (int i = 0; i < kWidth; ++i) sum[i] += values[i];
        }
      }
      return sum;
    }
    POSEIDON_DEVICE Method begin() const {
      return Method(cell(row.begin, column.begin), place(row.begin, column.begin));
    }
  };
  POSEIDON_DEVICE Reading reading(const PoolingSite& site) const {
    const int64_t area = int64_t{plan.rows.input} * plan.columns.input;
    return {.row = plan.rows.window(site.y),
            .column = plan.columns.window(site.x),
            .plane = in + site.sample * area * plan.channels + site.group * kWidth,
            .channels = plan.channels,
            .width = plan.columns.input,
            .kernel_width = static_cast<uint32_t>(plan.columns.kernel)};
  }
  /// Writes the results of a window for the channel group of `site`. `index` counts the channel
  /// groups of all positions and samples, so the results begin at out[index * kWidth].
  POSEIDON_DEVICE void finish(const Method& method, const PoolingSite& site, int64_t index) const {
    method.finish(plan.share(site.y, site.x), out + index * kWidth,
                  places == nullptr ? nullptr : places + index * kWidth);
  }
};

/// A thread processes one window in one group of channels.
template <class Element, int kWidth, class Method>
struct PoolingKernel : PoolingForward<Element, kWidth, Method> {
  static constexpr const char* kName = "pooling";
  static constexpr uint32_t kThreads = 256;

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const PoolingPlan& all = this->plan;
    const uint32_t index = thread.block() * kThreads + thread.thread();
    const PoolingSite site = this->sites.site(index);
    if (site.sample >= all.samples) return;
    const auto window = this->reading(site);
    Method method = window.begin();
    for (int32_t y = window.row.begin; y < window.row.end; ++y) {
      const Element* cell = window.at(y, window.column.begin);
#pragma unroll 3
      for (int32_t x = window.column.begin; x < window.column.end; ++x, cell += all.channels)
        method.take(load_channels<kWidth>(cell), window.place(y, x));
    }
    this->finish(method, site, index);
  }
};

/// For windows of many cells. A block processes one window in kGroups groups of channels. kSplits
/// threads share a group: each of them processes every kSplits-th cell. Then the threads merge
/// their results by pairs, in a fixed order.
template <class Element, int kWidth, class Method>
struct LargePoolingKernel : PoolingForward<Element, kWidth, Method> {
  static constexpr const char* kName = "pooling of large windows";
  static constexpr uint32_t kThreads = 256, kGroups = 8;
  static constexpr int32_t kSplits = kThreads / kGroups;
  using Shared = typename Method::template Parts<kThreads>;

  POSEIDON_DEVICE void operator()(const Thread& thread, Shared& shared) const {
    const PoolingPlan& all = this->plan;
    const uint32_t groups = all.channels / kWidth;
    PoolingSite site = this->sites.site(thread.block());
    site.group = site.group * kGroups + thread.thread() % kGroups;
    const bool is_inside = site.group < groups;
    if (!is_inside) site.group = 0;  // this thread joins the synchronization but writes nothing
    const auto window = this->reading(site);
    Method method = window.begin();
    const int32_t width = window.column.end - window.column.begin;
    const auto part = static_cast<int32_t>(thread.thread() / kGroups);
    int32_t y = window.row.begin + part / width, x = window.column.begin + part % width;
    // The thread's next cell is kSplits cells later in row-major order: `rows` rows down and
    // `columns` columns to the right. If this is past the last column, the cell is in the row
    // below.
    const int32_t rows = kSplits / width, columns = kSplits % width;
    while (y < window.row.end) {
      method.take(window.cell(y, x), window.place(y, x));
      y += rows;
      x += columns;
      if (x < window.column.end) continue;
      x -= width;
      ++y;
    }
    for (uint32_t apart = kThreads / 2; apart >= kGroups; apart /= 2) {
      if (thread.thread() < 2 * apart) method.give(shared, thread.thread());
      thread.synchronize();
      if (thread.thread() < apart) method.join(shared, thread.thread() + apart);
      thread.synchronize();
    }
    if (is_inside && thread.thread() < kGroups)
      this->finish(method, site,
                   int64_t{this->sites.groups.quotient(thread.block())} * groups + site.group);
  }
};

}  // namespace poseidon::layers::cuda
