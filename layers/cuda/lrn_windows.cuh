#pragma once

#include "layers/cuda/lrn_powers.cuh"

/// Local response normalization over any window, across or within channels.
namespace poseidon::layers::cuda {

/// The window of channels around the channel of a thread. sum() adds value(offset of the channel)
/// over the window. Requires kEach = 1.
struct AcrossWindow {
  uint32_t channels;

  template <int kEach, class Value>
  POSEIDON_DEVICE Channels<kEach> sum(uint32_t index, int half, const Value& value) const {
    const int count = static_cast<int>(channels);
    const auto channel = static_cast<int>(index % channels);
    const int first = channel < half ? 0 : channel - half;
    const int end = channel + half < count ? channel + half + 1 : count;
    Channels<kEach> sum{};
    for (int c = first; c < end; ++c) sum[0] += value(int64_t{index} - channel + c)[0];
    return sum;
  }
};

/// The window of positions around the position of a thread, in the same channels. sum() adds
/// value(offset of the thread's first channel at the position) over the window.
struct WithinWindow {
  uint32_t channels, height, width;

  template <int kEach, class Value>
  POSEIDON_DEVICE Channels<kEach> sum(uint32_t index, int half, const Value& value) const {
    const uint32_t position = index / (channels / kEach);
    const uint32_t first = index % (channels / kEach) * kEach;
    const int columns = static_cast<int>(width), rows = static_cast<int>(height);
    const auto column = static_cast<int>(position % width);
    const auto row = static_cast<int>(position / width % height);
    const int left = column < half ? -column : -half, up = row < half ? -row : -half;
    const int right = column + half < columns ? half : columns - 1 - column;
    const int down = row + half < rows ? half : rows - 1 - row;
    Channels<kEach> sum{};
    for (int y = up; y <= down; ++y)
#pragma unroll 2
      for (int x = left; x <= right; ++x) {
        const auto here = value((int64_t{position} + y * columns + x) * channels + first);
#pragma unroll
        for (int i = 0; i < kEach; ++i) sum[i] += here[i];
      }
    return sum;
  }
};

template <int kEach, class Element>
struct SquareAt {
  const Element* x;
  POSEIDON_DEVICE Channels<kEach> operator()(int64_t offset) const {
    return squares_of(load_channels<kEach>(x + offset));
  }
};

template <int kEach>
struct ValueAt {
  const float* values;
  POSEIDON_DEVICE Channels<kEach> operator()(int64_t offset) const {
    return load_channels<kEach>(values + offset);
  }
};

/// The common part of the three kernels below. A thread processes kEach channels of a position.
/// `Window` is AcrossWindow or WithinWindow.
template <class Element, int kEach, class Window, class Beta>
struct LrnPass {
  const Element* input;
  uint32_t count;  ///< number of threads that have work
  Window window;
  LrnConstants constants;
  Beta beta;

  size_t bytes() const { return bytes_of_elements<Element>(int64_t{count} * kEach); }

  POSEIDON_DEVICE LrnPowers powers(float sum) const {
    return beta(constants.k + constants.alpha * sum);
  }
  POSEIDON_DEVICE Channels<kEach> squares(uint32_t index) const {
    return window.template sum<kEach>(index, constants.half, SquareAt<kEach, Element>{input});
  }
};

template <class Element, int kEach, class Window, class Beta>
struct LrnForwardKernel {
  static constexpr const char* kName = "lrn forward";
  static constexpr uint32_t kThreads = 256;

  LrnPass<Element, kEach, Window, Beta> pass;
  Element* output;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(pass.input, pass.bytes());
    visitor.writes(output, pass.bytes());
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const uint32_t index = thread.block() * kThreads + thread.thread();
    if (index >= pass.count) return;
    const auto sums = pass.squares(index);
    auto x = load_channels<kEach>(pass.input + int64_t{index} * kEach);
#pragma unroll
    for (int i = 0; i < kEach; ++i) x[i] *= pass.powers(sums[i]).root;
    store_channels<kEach>(output + int64_t{index} * kEach, x);
  }
};

/// First pass of backward: products = q (lrn_powers.cuh).
template <class Element, int kEach, class Window, class Beta>
struct LrnProductsKernel {
  static constexpr const char* kName = "lrn products";
  static constexpr uint32_t kThreads = 256;

  LrnPass<Element, kEach, Window, Beta> pass;
  const Element* gradient;
  float* products;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(pass.input, pass.bytes());
    visitor.reads(gradient, pass.bytes());
    visitor.writes(products, bytes_of_elements<float>(int64_t{pass.count} * kEach));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const uint32_t index = thread.block() * kThreads + thread.thread();
    if (index >= pass.count) return;
    const auto sums = pass.squares(index);
    const auto x = load_channels<kEach>(pass.input + int64_t{index} * kEach);
    auto g = load_channels<kEach>(gradient + int64_t{index} * kEach);
#pragma unroll
    for (int i = 0; i < kEach; ++i) g[i] *= x[i] * pass.powers(sums[i]).step;
    store_channels<kEach>(products + int64_t{index} * kEach, g);
  }
};

/// Second pass of backward: target = dx, computed from the products q.
template <class Element, int kEach, class Window, class Beta>
struct LrnGradientKernel {
  static constexpr const char* kName = "lrn gradient";
  static constexpr uint32_t kThreads = 256;

  LrnPass<Element, kEach, Window, Beta> pass;
  const Element* gradient;
  const float* products;
  Element* target;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(pass.input, pass.bytes());
    visitor.reads(gradient, pass.bytes());
    visitor.reads(products, bytes_of_elements<float>(int64_t{pass.count} * kEach));
    visitor.writes(target, pass.bytes());
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const uint32_t index = thread.block() * kThreads + thread.thread();
    if (index >= pass.count) return;
    auto result = pass.squares(index);
    auto g = load_channels<kEach>(gradient + int64_t{index} * kEach);
#pragma unroll
    for (int i = 0; i < kEach; ++i) result[i] = g[i] * pass.powers(result[i]).root;
    const auto sums =
        pass.window.template sum<kEach>(index, pass.constants.half, ValueAt<kEach>{products});
    const auto x = load_channels<kEach>(pass.input + int64_t{index} * kEach);
#pragma unroll
    for (int i = 0; i < kEach; ++i) result[i] -= pass.constants.gradient * x[i] * sums[i];
    store_channels<kEach>(target + int64_t{index} * kEach, result);
  }
};

}  // namespace poseidon::layers::cuda
