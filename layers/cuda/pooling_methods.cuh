#pragma once

#include "layers/cuda/channels.cuh"

/// Pooling methods: a method reduces the cells of a window to the mean, or to the maximum and its
/// place. A place is the index of a cell in its window. take() adds a cell. give() stores a
/// thread's result in shared memory, and join() merges the result of another thread from there.
/// finish() writes the output, and the places if requested.
namespace poseidon::layers::cuda {

/// Mean: the running sum of the cells of a window.
template <class Element, int kWidth>
struct MeanOfWindow {
  using Values = Channels<kWidth>;
  using Place = uint8_t;  // unused, because the mean has no place
  template <uint32_t kThreads>
  struct Parts {
    float sums[kWidth][kThreads];
  };

  Values sum{};

  POSEIDON_DEVICE explicit MeanOfWindow(const Values&, uint32_t) {}
  POSEIDON_DEVICE void take(const Values& cell, uint32_t) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum[i] += cell[i];
  }
  template <uint32_t kThreads>
  POSEIDON_DEVICE void give(Parts<kThreads>& parts, uint32_t thread) const {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) parts.sums[i][thread] = sum[i];
  }
  template <uint32_t kThreads>
  POSEIDON_DEVICE void join(const Parts<kThreads>& parts, uint32_t thread) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum[i] += parts.sums[i][thread];
  }
  POSEIDON_DEVICE void finish(float share, Element* out, uint8_t*) const {
    Values mean;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) mean[i] = sum[i] * share;
    store_channels<kWidth>(out, mean);
  }
};

/// The places of the selected cells for neighboring channels, as stored in memory.
template <class Place, int kWidth>
struct alignas(sizeof(Place) * kWidth) PoolingPlaces {
  Place values[kWidth];
};

/// Maximum: the running maximum of the cells of a window, and its place. Places count in row-major
/// order and include the padding. If cells are equal, the first one wins. The maximum starts as the
/// first cell, so a NaN there stays. Later NaNs are ignored, since no comparison with NaN is true.
template <class Element, int kWidth, class PlaceType>
struct MaximumOfWindow {
  using Values = Channels<kWidth>;
  using Place = PlaceType;
  template <uint32_t kThreads>
  struct Parts {
    float best[kWidth][kThreads];
    uint32_t places[kWidth][kThreads];
  };

  Values best;
  uint32_t places[kWidth];

  POSEIDON_DEVICE MaximumOfWindow(const Values& cell, uint32_t place) : best(cell) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) places[i] = place;
  }
  POSEIDON_DEVICE void take(const Values& cell, uint32_t place) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const bool greater = cell[i] > best[i];
      best[i] = greater ? cell[i] : best[i];
      places[i] = greater ? place : places[i];
    }
  }
  template <uint32_t kThreads>
  POSEIDON_DEVICE void give(Parts<kThreads>& parts, uint32_t thread) const {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      parts.best[i][thread] = best[i];
      parts.places[i][thread] = places[i];
    }
  }
  template <uint32_t kThreads>
  POSEIDON_DEVICE void join(const Parts<kThreads>& parts, uint32_t thread) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float other = parts.best[i][thread];
      const uint32_t place = parts.places[i][thread];
      if (other > best[i] || (other == best[i] && place < places[i])) {
        best[i] = other;
        places[i] = place;
      }
    }
  }
  /// `kept`: receives the places; may be null.
  POSEIDON_DEVICE void finish(float, Element* out, Place* kept) const {
    store_channels<kWidth>(out, best);
    if (kept == nullptr) return;
    PoolingPlaces<Place, kWidth> packed;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) packed.values[i] = static_cast<Place>(places[i]);
    *reinterpret_cast<PoolingPlaces<Place, kWidth>*>(kept) = packed;
  }
};

}  // namespace poseidon::layers::cuda
