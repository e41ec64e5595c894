#pragma once

#include "layers/cuda/pooling_forward.cuh"

/// Stochastic pooling (layers/pooling.h), forward. A thread takes a window, however large: the sums
/// have one order, so that the CPU takes the same cells.
namespace poseidon::layers::cuda {

/// What PoolingForward wants of a method: that it keeps places.
template <class Element, int kWidth, class PlaceType>
struct CellOfWindow {
  using Place = PlaceType;
};

template <class Element, int kWidth, class Place>
struct StochasticPoolingKernel
    : PoolingForward<Element, kWidth, CellOfWindow<Element, kWidth, Place>> {
  static constexpr const char* kName = "stochastic pooling";
  static constexpr uint32_t kThreads = 256;
  using Values = Channels<kWidth>;
  using Forward = PoolingForward<Element, kWidth, CellOfWindow<Element, kWidth, Place>>;

  const StepNumbers* step;
  uint64_t key;

  void visit(MemoryVisitor& visitor) const {
    Forward::visit(visitor);
    visitor.reads(step, sizeof(StepNumbers));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const uint32_t index = thread.block() * kThreads + thread.thread();
    const PoolingSite site = this->sites.site(index);
    if (site.sample >= this->plan.samples) return;
    const auto window = this->reading(site);
    Values wanted = chances(site);
    const Values whole = window.sum();
#pragma unroll
    for (int i = 0; i < kWidth; ++i) wanted[i] *= whole[i];
    take(window, wanted, int64_t{index} * kWidth);
  }

 private:
  /// Of the site's channels. One block of words has those of four neighbours.
  POSEIDON_DEVICE Values chances(const PoolingSite& site) const {
    const RandomStream random = Pooling::stream_of(*step, key, site.sample);
    const uint32_t position = site.y * this->plan.columns.output + site.x;
    const uint64_t first = uint64_t{position} * this->plan.channels + site.group * kWidth;
    Values chances;
    if constexpr (kWidth == 1) {
      const PhiloxBlock words = random.at(first / 4);
      const uint32_t place = first % 4;
      chances[0] = Pooling::chance(place < 2 ? (place == 0 ? words[0] : words[1])
                                             : (place == 2 ? words[2] : words[3]));
    } else {
#pragma unroll
      for (int i = 0; i < kWidth; i += 4) {
        const PhiloxBlock words = random.at(first / 4 + i / 4);
#pragma unroll
        for (int k = 0; k < 4; ++k) chances[i + k] = Pooling::chance(words[k]);
      }
    }
    return chances;
  }

  /// The cells at which the sums so far reach what is wanted; else the last one.
  template <class Window>
  POSEIDON_DEVICE void take(const Window& window, const Values& wanted, int64_t offset) const {
    Values sum{}, taken{};
    PoolingPlaces<Place, kWidth> where{};
    bool is_reached[kWidth] = {};
    for (int32_t y = window.row.begin; y < window.row.end; ++y) {
#pragma unroll 2
      for (int32_t x = window.column.begin; x < window.column.end; ++x) {
        const Values cell = window.cell(y, x);
        const auto place = static_cast<Place>(window.place(y, x));
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
          taken[i] = is_reached[i] ? taken[i] : cell[i];
          where.values[i] = is_reached[i] ? where.values[i] : place;
          sum[i] += cell[i];
          is_reached[i] = is_reached[i] || sum[i] >= wanted[i];
        }
      }
    }
    store_channels<kWidth>(this->out + offset, taken);
    if (this->places != nullptr)
      *reinterpret_cast<PoolingPlaces<Place, kWidth>*>(this->places + offset) = where;
  }
};

/// What the stochastic method has in the long run: of each window the sum of squares by the sum.
template <class Element, int kWidth>
struct WeightedPoolingKernel
    : PoolingForward<Element, kWidth, CellOfWindow<Element, kWidth, uint8_t>> {
  static constexpr const char* kName = "weighted pooling";
  static constexpr uint32_t kThreads = 256;
  using Values = Channels<kWidth>;

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const uint32_t index = thread.block() * kThreads + thread.thread();
    const PoolingSite site = this->sites.site(index);
    if (site.sample >= this->plan.samples) return;
    const auto window = this->reading(site);
    const Values sum = window.sum();
    Values squares{};
    for (int32_t y = window.row.begin; y < window.row.end; ++y) {
#pragma unroll 2
      for (int32_t x = window.column.begin; x < window.column.end; ++x) {
        const Values cell = window.cell(y, x);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) squares[i] += cell[i] * cell[i];
      }
    }
#pragma unroll
    for (int i = 0; i < kWidth; ++i) squares[i] = sum[i] > 0 ? squares[i] / sum[i] : 0;
    store_channels<kWidth>(this->out + int64_t{index} * kWidth, squares);
  }
};

}  // namespace poseidon::layers::cuda
