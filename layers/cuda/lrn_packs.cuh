#pragma once

#include "layers/cuda/lrn_powers.cuh"

/// Local response normalization across channels, for windows that reach at most into the adjacent
/// packs of channels.
namespace poseidon::layers::cuda {

/// A pack of channels and the adjacent packs of the same position. At the first and the last pack
/// of a position, the missing neighbor is zero.
template <int kEach>
struct ThreePacks {
  Channels<kEach> left, own, right;

  /// sums[i] = sum over the window around own[i], from i - half to i + half; half <= kEach.
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

/// The offset of a thread's pack in elements. has_left, has_right: whether the adjacent pack
/// belongs to the same position.
struct PackPlace {
  int64_t offset;
  bool has_left, has_right;
};

POSEIDON_DEVICE PackPlace place_of_pack(uint32_t pack, uint32_t packs_across, int each) {
  const uint32_t column = pack % packs_across;
  return {int64_t{pack} * each, column > 0, column + 1 < packs_across};
}

template <int kEach, class Element>
POSEIDON_DEVICE Channels<kEach> window_squares(const Element* x, const Channels<kEach>& own,
                                               const PackPlace& place, int half) {
  ThreePacks<kEach> squares{{}, squares_of(own), {}};
  if (place.has_left) squares.left = squares_of(load_channels<kEach>(x - kEach));
  if (place.has_right) squares.right = squares_of(load_channels<kEach>(x + kEach));
  return squares.window_sums(half);
}

/// A thread computes one pack of outputs. The thread also loads the adjacent packs, usually from
/// the cache.
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

/// target = dx (lrn_powers.cuh). Each thread computes q and dx of one pack. The threads exchange q
/// through shared memory. The first and the last thread of a block compute only q, which their
/// neighbors need.
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
    const bool inside = pack < packs;  // also false before the first pack, where `pack` wraps
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

}  // namespace poseidon::layers::cuda
