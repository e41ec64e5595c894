#pragma once

#include "layers/cuda/pooling_forward.cuh"

/// The forward pass of stochastic pooling (layers/pooling.h). One thread processes a whole window
/// of any size. So the sums have the same order as on the CPU, and GPU and CPU select the same
/// cells.
namespace poseidon::layers::cuda {

/// Method parameter for PoolingForward. It only defines the type of places.
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

  const StepParameters* step;
  uint64_t key;

  void visit(MemoryVisitor& visitor) const {
    Forward::visit(visitor);
    visitor.reads(step, sizeof(StepParameters));
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
  /// A random number in (0, 1] for each channel of the site (Pooling::chance). One Philox block has
  /// the words of four neighboring channels.
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

  /// Selects for each channel the first cell at which the running sum reaches `wanted`, or else the
  /// last cell. Writes the values of the cells and, unless `places` is null, their places.
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

/// Stochastic pooling in testing: the expected value for each window, sum of squares / sum; 0 if
/// the sum is 0 or less.
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
