#pragma once

#include <algorithm>
#include <cstdint>

#include "layers/cpu/team_loops.h"
#include "layers/cpu/winograd_product.h"

/// The division of a Winograd convolution's tiles and channels among threads.
namespace poseidon::layers::cpu::winograd {

struct Range {
  int64_t first, end;
  int64_t count() const { return end - first; }
};

/// A part of the work: some tiles, for some outputs.
struct Share {
  int64_t tile_part;
  Range tiles, outputs;
};

/// Divides the work of one group of channels into shares. Each share has some of the tiles and some
/// of the output channels. The tiles of a share are divided into blocks. The inputs and outputs of
/// a block go through all steps while they are in the cache.
class Shares {
 public:
  /// The numbers of parts of the tiles and of the output channels.
  struct Parts {
    int64_t of_tiles, of_outputs;
  };

  /// Parts for a forward pass. `inputs` and `outputs` are channels. By default, threads divide only
  /// the tiles. Each thread then reads the whole transformed weight. If these copies (threads times
  /// weight) are larger than the transformed inputs and outputs of all tiles, the threads first
  /// divide the output channels, in strips (kStrip). Threads with the same tiles but different
  /// output channels each repeat the transform of the input.
  static Parts for_threads(int64_t threads, int64_t tiles, int64_t inputs, int64_t outputs) {
    const bool divides_outputs = threads * inputs * outputs > tiles * (inputs + outputs);
    const int64_t of_outputs = divides_outputs ? std::min(threads, ceil_div(outputs, kStrip)) : 1;
    return {.of_tiles = std::min(threads / of_outputs, ceil_div(tiles, kRows)),
            .of_outputs = of_outputs};
  }

  /// Parts for the gradient of a weight. Each part of the tiles has a separate sum, so of_tiles
  /// depends on the geometry alone. A sum costs a pass over the transformed weight, so a part has
  /// many tiles, and few sums exist if the weight is large. Then the output channels are divided,
  /// which changes no sum.
  static Parts for_sums(int64_t threads, int64_t tiles, int64_t inputs, int64_t outputs) {
    constexpr int64_t kTilesOfSum = 256, kSums = 8, kBytesOfSums = 8 << 20;
    constexpr int64_t kPartsOfThread = 2;
    const int64_t fitting = kBytesOfSums / (kPoints * inputs * outputs * 4);
    const int64_t of_tiles = std::clamp<int64_t>(std::min(fitting, tiles / kTilesOfSum), 1, kSums);
    const int64_t wanted = threads == 1 ? 1 : ceil_div(kPartsOfThread * threads, of_tiles);
    return {.of_tiles = of_tiles, .of_outputs = std::min(wanted, ceil_div(outputs, kStrip))};
  }

  /// `inputs` and `outputs` are channels.
  Shares(ThreadTeam& team, const Parts& parts, int64_t tiles, int64_t inputs, int64_t outputs)
      : team_(team),
        tiles_(tiles),
        inputs_(inputs),
        outputs_(outputs),
        tile_parts_(parts.of_tiles),
        output_parts_(parts.of_outputs) {
    const int64_t of_part = ceil_div(tiles, tile_parts_);
    const int64_t fitting = kCacheBytes / (kPoints * (inputs + outputs) * 4);
    const int64_t blocks = ceil_div(of_part, std::max(fitting, kMinTiles));
    block_ = ceil_div(ceil_div(of_part, blocks), kRows) * kRows;
  }

  /// The number of parts into which the tiles are divided.
  int64_t tile_parts() const { return tile_parts_; }
  /// The memory of all threads, in floats.
  int64_t room() const { return team_.threads() * room_of_share(); }

  /// Calls body(share, memory for a block of its inputs, memory for a block of its outputs) for
  /// each share, on several threads.
  template <class Body>
  void for_each(float* rooms, const Body& body) const {
    team_.run(count(), [&](int64_t i, int thread) {
      float* room = rooms + thread * room_of_share();
      body(share_of(i), Matrices{room, block_, inputs_},
           Matrices{room + Matrices::count(block_, inputs_), block_, outputs_});
    });
  }

  /// Like for_each(), but several threads may compute the blocks of one share. Calls body(share,
  /// tiles of the block, memory for its inputs, memory for its outputs).
  template <class Body>
  void for_each_block(float* rooms, const Body& body) const {
    const int64_t blocks = ceil_div(ceil_div(ceil_div(tiles_, kRows), tile_parts_) * kRows, block_);
    team_.run(count() * blocks, [&](int64_t i, int thread) {
      const Share share = share_of(i / blocks);
      const int64_t first = share.tiles.first + i % blocks * block_;
      if (first >= share.tiles.end) return;
      float* room = rooms + thread * room_of_share();
      body(share, Range{first, std::min(first + block_, share.tiles.end)},
           Matrices{room, block_, inputs_},
           Matrices{room + Matrices::count(block_, inputs_), block_, outputs_});
    });
  }

  /// Calls body(tiles) for the tiles of a share, block by block.
  template <class Body>
  void for_blocks(const Share& share, const Body& body) const {
    for (int64_t first = share.tiles.first; first < share.tiles.end; first += block_)
      body(Range{first, std::min(first + block_, share.tiles.end)});
  }

 private:
  /// The approximate size of a block of tiles, input and output, in bytes. A second-level cache of
  /// 1 MiB should also have room for the transformed weight, and the data that is read and written.
  static constexpr int64_t kCacheBytes = 512 << 10;
  /// The least number of tiles of a block, so that a weight that does not fit in a cache is used
  /// several times.
  static constexpr int64_t kMinTiles = 64;

  static int64_t ceil_div(int64_t whole, int64_t part) { return (whole + part - 1) / part; }
  static Range part(int64_t whole, int64_t step, int64_t parts, int64_t index) {
    const int64_t steps = ceil_div(whole, step);
    return {steps * index / parts * step, std::min(whole, steps * (index + 1) / parts * step)};
  }

  int64_t count() const { return tile_parts_ * output_parts_; }
  int64_t room_of_share() const {
    return Matrices::count(block_, inputs_) + Matrices::count(block_, outputs_);
  }
  Share share_of(int64_t index) const {
    const int64_t tile_part = index / output_parts_;
    return {tile_part, part(tiles_, kRows, tile_parts_, tile_part),
            part(outputs_, kStrip, output_parts_, index % output_parts_)};
  }

  ThreadTeam& team_;
  int64_t tiles_, inputs_, outputs_;
  int64_t tile_parts_, output_parts_;
  int64_t block_ = 0;  ///< tiles
};

}  // namespace poseidon::layers::cpu::winograd
