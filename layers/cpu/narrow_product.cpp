#include "layers/cpu/narrow_product.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "layers/cpu/multiply_add.h"
#include "layers/cpu/portions.h"
#include "layers/cpu/product.h"

namespace poseidon::layers::cpu::product {

namespace {

constexpr int64_t kMostChannels = 4;  ///< channels of a narrow result

/// The vectors of places of one tile, for a result of this many channels. The registers have room
/// for the sums and for the vectors of one tap and channel.
constexpr int64_t vectors_of_tile(int64_t channels) {
#ifdef __AVX512F__
  return std::min<int64_t>(8, 24 / channels);
#elif defined(__AVX__)
  return std::min<int64_t>(4, 12 / channels);
#else
  return std::min<int64_t>(3, 6 / channels);
#endif
}
constexpr int64_t kMostPlaces = vectors_of_tile(1) * kLanes;  ///< places of the largest tile

/// Planes of a task stay in the second-level cache.
constexpr int64_t kFloatsOfTask = 48 << 10;

/// Taps and channels of a product: the summed index.
struct Depth {
  const int64_t* tap_offsets;
  int64_t taps, channels, channel_step;
};

/// The sums of one tile: kChannels rows, `row_step` floats apart.
template <int64_t kChannels>
void multiply_places(const float* planes, const Depth& depth, const float* weight,
                     const float* bias, const float* relu, float* sums, int64_t row_step) {
  constexpr int64_t kVectorsOfTile = vectors_of_tile(kChannels);
  Float sum[kChannels][kVectorsOfTile];
#pragma GCC unroll 16
  for (int64_t r = 0; r < kChannels; ++r)
    for (int64_t v = 0; v < kVectorsOfTile; ++v)
      sum[r][v] = Float{} + (bias == nullptr ? 0.0F : bias[r]);
  for (int64_t tap = 0; tap < depth.taps; ++tap) {
    const float* place = planes + depth.tap_offsets[tap];
#pragma GCC unroll 2
    for (int64_t channel = 0; channel < depth.channels; ++channel) {
      Float right[kVectorsOfTile];
#pragma GCC unroll 16
      for (int64_t v = 0; v < kVectorsOfTile; ++v) right[v] = load<Float>(place + v * kLanes);
#pragma GCC unroll 16
      for (int64_t r = 0; r < kChannels; ++r)
        for (int64_t v = 0; v < kVectorsOfTile; ++v)
          sum[r][v] = multiply_add(weight[r], right[v], sum[r][v]);
      place += depth.channel_step;
      weight += kChannels;
    }
  }
#pragma GCC unroll 16
  for (int64_t r = 0; r < kChannels; ++r)
    for (int64_t v = 0; v < kVectorsOfTile; ++v)
      store(sums + r * row_step + v * kLanes,
            relu == nullptr ? sum[r][v] : leaky_relu(sum[r][v], *relu));
}

}  // namespace

NarrowProduct::NarrowProduct(Patches patches, const PatchWeight& weight, const PatchResult& result,
                             int64_t threads)
    : patches_(std::move(patches)),
      planes_(patches_),
      weight_(weight),
      channels_(result.channels),
      cells_(result) {
  divide(threads);
}

/// PatchProduct takes the time of about half a vector of products for each place. This class takes
/// the time of channels + 1 vectors for each vector of places, those between the rows included.
bool NarrowProduct::is_faster(const Patches& patches, int64_t channels) {
  if (channels > kMostChannels || patches.columns() == 0) return false;
  const PatchGrid& grid = patches.grid();
  const TapPlanes planes(patches);
  const int64_t extent = planes.sample_step({0, 1, 0, grid.height});
  return extent * (channels + 1) <= grid.height * grid.width * kLanes;
}

/// Chooses tasks whose planes stay in the cache, and enough tasks for all threads.
void NarrowProduct::divide(int64_t threads) {
  const PatchGrid& grid = patches_.grid();
  const int64_t wanted = threads == 1 ? 1 : 4 * threads;
  const auto floats = [&] { return planes_.floats(largest_task()); };
  while (ranges_of_samples_ < grid.samples &&
         (floats() > kFloatsOfTask || ranges_of_samples_ < wanted))
    ranges_of_samples_ = std::min(grid.samples, 2 * ranges_of_samples_);
  while (ranges_of_rows_ < grid.height && (floats() > kFloatsOfTask || tasks() < wanted))
    ranges_of_rows_ = std::min(grid.height, 2 * ranges_of_rows_);
}

GridRows NarrowProduct::largest_task() const {
  const PatchGrid& grid = patches_.grid();
  return {.sample = 0,
          .samples = divide_up(grid.samples, ranges_of_samples_),
          .row = 0,
          .rows = divide_up(grid.height, ranges_of_rows_)};
}

/// The extent of the places, and the rest of the last tile.
int64_t NarrowProduct::padded_extent(const GridRows& range) const {
  return planes_.extent(range) + kMostPlaces;
}

/// Planes, a row of the source, sums.
int64_t NarrowProduct::scratch_bytes() const {
  const GridRows range = largest_task();
  const int64_t sums = channels_ * padded_extent(range);
  return (planes_.floats(range) + kMostPlaces + planes_.floats_of_row() + sums) * 4;
}

int64_t NarrowProduct::weight_elements() const {
  return round_up(patches_.columns() * channels_, kLanes);
}

void NarrowProduct::pack_weight(int64_t, const float* weight, float* panels) const {
  for (const Tap& tap : patches_.grid().taps)
    for (int64_t channel = 0; channel < patches_.channels(); ++channel) {
      const float* from = weight + tap.index * weight_.tap_step + channel * weight_.channel_step;
      for (int64_t result = 0; result < channels_; ++result)
        *panels++ = from[result * weight_.result_step];
    }
}

void NarrowProduct::run(int64_t task, const Memory& memory) const {
  const PatchGrid& grid = patches_.grid();
  const int64_t samples = task / ranges_of_rows_, rows = task % ranges_of_rows_;
  GridRows range{.sample = grid.samples * samples / ranges_of_samples_,
                 .samples = grid.samples * (samples + 1) / ranges_of_samples_,
                 .row = grid.height * rows / ranges_of_rows_,
                 .rows = grid.height * (rows + 1) / ranges_of_rows_};
  range.samples -= range.sample;
  range.rows -= range.row;
  auto* planes = reinterpret_cast<float*>(memory.scratch);
  float* row = planes + planes_.floats(range) + kMostPlaces;
  float* sums = row + planes_.floats_of_row();
  if (!grid.taps.empty()) planes_.fill(patches_, memory.source, range, planes, row);
  multiply(memory, range, planes, sums);
  copy_sums(memory, range, sums);
}

void NarrowProduct::multiply(const Memory& memory, const GridRows& range, const float* planes,
                             float* sums) const {
  using Multiply = void (*)(const float*, const Depth&, const float*, const float*, const float*,
                            float*, int64_t);
  constexpr std::array<Multiply, kMostChannels> kMultiply{multiply_places<1>, multiply_places<2>,
                                                          multiply_places<3>, multiply_places<4>};
  std::vector<int64_t> offsets;
  for (const Tap& tap : patches_.grid().taps) offsets.push_back(planes_.offset(tap, range));
  const Depth depth{.tap_offsets = offsets.data(),
                    .taps = std::ssize(offsets),
                    .channels = patches_.channels(),
                    .channel_step = planes_.channel_step(range)};
  const int64_t step = padded_extent(range), extent = planes_.extent(range);
  const float* relu = memory.relu ? &*memory.relu : nullptr;
  for (int64_t place = 0; place < extent; place += vectors_of_tile(channels_) * kLanes)
    kMultiply[static_cast<size_t>(channels_ - 1)](planes + place, depth, memory.panels, memory.bias,
                                                  relu, sums + place, step);
}

/// Copies the sums to the result, and zeros to the padding of a block.
void NarrowProduct::copy_sums(const Memory& memory, const GridRows& range,
                              const float* sums) const {
  const PatchGrid& grid = patches_.grid();
  const int64_t row_step = padded_extent(range);
  std::vector<float*> cells(static_cast<size_t>(grid.width));
  for (int64_t sample = 0; sample < range.samples; ++sample)
    for (int64_t row = 0; row < range.rows; ++row) {
      const int64_t place = ((range.sample + sample) * grid.height + range.row + row) * grid.width;
      cells_.list(memory.result, grid, place, grid.width, cells.data());
      const float* from = sums + sample * planes_.sample_step(range) + row * planes_.pitch();
      for (int64_t channel = 0; channel < cells_.columns(); ++channel) {
        const int64_t offset = cells_.offset_of_channel(channel);
        if (channel >= channels_)
          for (float* cell : cells) cell[offset] = 0;
        else
          for (size_t x = 0; x < cells.size(); ++x)
            cells[x][offset] = from[channel * row_step + static_cast<int64_t>(x)];
      }
    }
}

}  // namespace poseidon::layers::cpu::product
