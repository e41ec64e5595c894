#pragma once

#include "layers/cuda/channels.cuh"
#include "layers/cuda/device_math.cuh"

/// With s = k + alpha/m * (sum of squares over the window) and q = g * x * s^-(beta+1):
///   forward   y  = x * s^-beta
///   backward  dx = g * s^-beta - 2 * alpha/m * beta * x * (sum of q over the window).
/// Both need only x; s is computed again in backward, which costs less than to store it.
namespace poseidon::layers::cuda {

/// s = k + alpha * sum; alpha is divided by m, and gradient = 2 * alpha/m * beta.
struct LrnConstants {
  float k, alpha, gradient;
  int half;
};

struct LrnPowers {
  float root, step;  ///< s^-beta, s^-(beta+1)
};

struct BetaThreeQuarters {
  POSEIDON_DEVICE LrnPowers operator()(float s) const {
    const float r = inverse_root(s);               // s^-1/2
    const float root = r * (r * inverse_root(r));  // times the root of r
    return {root, root * (r * r)};
  }
};

struct AnyBeta {
  float beta;
  POSEIDON_DEVICE LrnPowers operator()(float s) const {
    const float root = exponential(-beta * logarithm(s));
    return {root, root / s};
  }
};

// ---- across channels, by packs

/// A pack of channels and its neighbours on both sides, zero beyond the edges of a position.
template <int kEach>
struct ThreePacks {
  Channels<kEach> left, own, right;

  /// sums[i] = sum over the window around own[i]; `half` is at most a pack.
  POSEIDON_DEVICE Channels<kEach> window_sums(int half) const {
    Channels<kEach> sums = own;
#pragma unroll
    for (int distance = 1; distance <= kEach; ++distance) {
      if (distance > half) break;
#pragma unroll
      for (int i = 0; i < kEach; ++i)
        sums[i] += (i < distance ? left[i - distance + kEach] : own[i - distance]) +
                   (i + distance < kEach ? own[i + distance] : right[i + distance - kEach]);
    }
    return sums;
  }
};

/// Which pack of a tensor a thread has, and whether it has neighbours at the same position.
struct PackPlace {
  int64_t offset;
  bool has_left, has_right;
};

POSEIDON_DEVICE PackPlace place_of_pack(uint32_t pack, uint32_t packs_across, int each) {
  const uint32_t column = pack % packs_across;
  return {int64_t{pack} * each, column > 0, column + 1 < packs_across};
}

template <int kEach>
POSEIDON_DEVICE Channels<kEach> squares_of(const Channels<kEach>& x) {
  Channels<kEach> squares;
#pragma unroll
  for (int i = 0; i < kEach; ++i) squares[i] = x[i] * x[i];
  return squares;
}

template <int kEach, class Element>
POSEIDON_DEVICE Channels<kEach> window_squares(const Element* x, const Channels<kEach>& own,
                                               const PackPlace& place, int half) {
  ThreePacks<kEach> squares{{}, squares_of(own), {}};
  if (place.has_left) squares.left = squares_of(load_channels<kEach>(x - kEach));
  if (place.has_right) squares.right = squares_of(load_channels<kEach>(x + kEach));
  return squares.window_sums(half);
}

/// Neighbours are loaded too, which comes from the cache.
template <class Element, class Beta>
struct LrnPacksForwardKernel {
  static constexpr const char* kName = "lrn across channels forward";
  static constexpr uint32_t kThreads = 256;
  static constexpr int kEach = kPack<Element>;

  const Element* input;
  Element* output;
  uint32_t packs, packs_across;
  LrnConstants constants;
  Beta beta;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(input, bytes_of_elements<Element>(int64_t{packs} * kEach));
    visitor.writes(output, bytes_of_elements<Element>(int64_t{packs} * kEach));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const uint32_t pack = thread.block() * kThreads + thread.thread();
    if (pack >= packs) return;
    const PackPlace place = place_of_pack(pack, packs_across, kEach);
    Channels<kEach> x = load_channels<kEach>(input + place.offset);
    const auto sums = window_squares<kEach>(input + place.offset, x, place, constants.half);
#pragma unroll
    for (int i = 0; i < kEach; ++i) x[i] *= beta(constants.k + constants.alpha * sums[i]).root;
    store_channels<kEach>(output + place.offset, x);
  }
};

/// A block has a pack more at each end than it writes: of those it makes q only, which the threads
/// give each other.
template <class Element, class Beta>
struct LrnPacksBackwardKernel {
  static constexpr const char* kName = "lrn across channels backward";
  static constexpr uint32_t kThreads = 256;
  static constexpr int kEach = kPack<Element>;
  static constexpr uint32_t kWritten = kThreads - 2;
  struct Shared {
    alignas(16) float products[kThreads][kEach];
  };

  const Element* input;
  const Element* gradient;
  Element* target;
  uint32_t packs, packs_across;
  LrnConstants constants;
  Beta beta;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(input, bytes_of_elements<Element>(int64_t{packs} * kEach));
    visitor.reads(gradient, bytes_of_elements<Element>(int64_t{packs} * kEach));
    visitor.writes(target, bytes_of_elements<Element>(int64_t{packs} * kEach));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread, Shared& shared) const {
    const uint32_t t = thread.thread();
    const uint32_t pack = thread.block() * kWritten + t - 1;
    const bool inside = pack < packs;  // nor is what comes before the first
    PackPlace place{};
    Channels<kEach> x{}, passed{}, products{};  // passed = g * s^-beta
    if (inside) {
      place = place_of_pack(pack, packs_across, kEach);
      x = load_channels<kEach>(input + place.offset);
      const auto g = load_channels<kEach>(gradient + place.offset);
      const auto sums = window_squares<kEach>(input + place.offset, x, place, constants.half);
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const LrnPowers powers = beta(constants.k + constants.alpha * sums[i]);
        passed[i] = g[i] * powers.root;
        products[i] = g[i] * x[i] * powers.step;
      }
    }
    store_channels<kEach>(shared.products[t], products);
    thread.synchronize();
    if (!inside || t == 0 || t == kThreads - 1) return;
    ThreePacks<kEach> three{{}, products, {}};
    if (place.has_left) three.left = load_channels<kEach>(shared.products[t - 1]);
    if (place.has_right) three.right = load_channels<kEach>(shared.products[t + 1]);
    const auto sums = three.window_sums(constants.half);
#pragma unroll
    for (int i = 0; i < kEach; ++i) passed[i] -= constants.gradient * x[i] * sums[i];
    store_channels<kEach>(target + place.offset, passed);
  }
};

// ---- any window

/// The channels around a thread's one.
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

/// The positions around a thread's, in its channels.
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

/// What the three kernels below have in common: a thread has kEach channels of a position.
template <class Element, int kEach, class Window, class Beta>
struct LrnPass {
  const Element* input;
  uint32_t count;  ///< of threads that have something to do
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

/// products = q.
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
