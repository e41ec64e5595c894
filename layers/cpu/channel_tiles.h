#pragma once

#include <algorithm>
#include <cstdint>

#include "core/shape.h"
#include "layers/cpu/team_loops.h"
#include "layers/cpu/vectors.h"

/// Loops over the elements of an activation in any layout. The body of a loop knows the channel of
/// each element. The tiles of memory depend only on the shape and the layout. If the tiles' sums
/// are added in order, the total has the same bits for any number of threads.
namespace poseidon::layers::cpu {

/// An activation as matrices of positions x channels, one for each sample. In memory a matrix is a
/// sequence of blocks of channels. If memory has all positions of all samples in sequence, the
/// samples form one matrix, unless the constructor's argument `apart` is true.
class ChannelTiling {
 public:
  /// `apart`: each sample is a separate matrix, even if one matrix could have all samples.
  ChannelTiling(const Shape& shape, Layout layout, bool apart) {
    const Blocking b(shape, layout);
    matrices_ = b.samples;
    blocks_ = b.blocks;
    positions_ = b.area;
    lanes_ = b.block;
    if (positions_ == 1) {
      lanes_ *= blocks_;
      blocks_ = 1;
    }
    if (blocks_ == 1 && !apart) {
      positions_ *= matrices_;
      matrices_ = 1;
    }
    tile_ = lanes_ == 1 ? 4096 : 256;
    tiles_ = (positions_ + tile_ - 1) / tile_;
  }

  int64_t matrices() const { return matrices_; }
  /// Channels, including padding.
  int64_t channels() const { return blocks_ * lanes_; }
  /// The number of tiles into which the positions of a matrix are divided.
  int64_t tiles() const { return tiles_; }

  /// Some elements of a tile: `count` vectors, 0 or more, that are `stride` elements apart, and
  /// their channels.
  struct Run {
    int64_t row;  ///< matrix * tiles() + tile
    int64_t matrix;
    int64_t channel;   ///< channel of the first lane
    bool one_channel;  ///< whether all lanes belong to this channel
    int64_t offset, stride, count;

    int64_t channel_of(int64_t lane) const { return one_channel ? channel : channel + lane; }
  };

  /// Calls body(vector, run) for each run. Only the type of `vector` matters: it is the type of the
  /// run's vectors. One thread visits the elements of one tile and channel, in order. The order of
  /// tiles and channels is undefined.
  template <class Body>
  void for_each_run(ThreadTeam& team, const Body& body) const {
    for_each_pair(team, matrices_ * blocks_, tiles_, std::min(tile_, positions_) * lanes_,
                  [&](int64_t i, int64_t tile) { runs_of(i / blocks_, i % blocks_, tile, body); });
  }

 private:
  template <class Body>
  void runs_of(int64_t matrix, int64_t block, int64_t tile, const Body& body) const {
    const int64_t first = tile * tile_, count = std::min(tile_, positions_ - first);
    Run run{.row = matrix * tiles_ + tile,
            .matrix = matrix,
            .channel = block * lanes_,
            .one_channel = lanes_ == 1,
            .offset = ((matrix * blocks_ + block) * positions_ + first) * lanes_,
            .stride = lanes_,
            .count = count};
    if (run.one_channel) return side_by_side(run, body);
    int64_t left = lanes_;
    for (; left >= 16; left -= 16) step<16>(run, body);
    for (; left >= 8; left -= 8) step<8>(run, body);
    for (; left > 0; --left) step<1>(run, body);
  }

  /// For a single channel: the lanes are neighboring positions.
  template <class Body>
  static void side_by_side(Run run, const Body& body) {
    const int64_t rest = run.count % 16;
    run.stride = 16;
    run.count /= 16;
    body(Vectors<16>::Float{}, run);
    run.offset += run.count * 16;
    run.stride = 1;
    run.count = rest;
    body(Vectors<1>::Float{}, run);
  }

  template <int kLanes, class Body>
  static void step(Run& run, const Body& body) {
    body(typename Vectors<kLanes>::Float{}, run);
    run.channel += kLanes;
    run.offset += kLanes;
  }

  int64_t matrices_, blocks_, positions_, lanes_, tile_, tiles_;
};

/// The values of a run's channels, one for each lane.
template <class Float>
Float of_channels(const float* values, const ChannelTiling::Run& run) {
  if (run.one_channel) return Float{} + values[run.channel];
  return load<Float>(values + run.channel);
}

/// Adds the sums of a run's lanes to the sums of its channels. `sums` begins with channel 0.
template <class Float>
void add_lanes(const Float& lanes, const ChannelTiling::Run& run, float* sums) {
  constexpr int kLanes = sizeof(Float) / sizeof(float);
  if (!run.one_channel) return store(sums + run.channel, load<Float>(sums + run.channel) + lanes);
  float sum = 0;
  for (int i = 0; i < kLanes; ++i) sum += lanes[i];
  sums[run.channel] += sum;
}

}  // namespace poseidon::layers::cpu
