#pragma once

#include <algorithm>
#include <bit>
#include <type_traits>

#include "layers/cuda/channels.cuh"
#include "layers/cuda/reduce.cuh"

/// The tiling of passes over a matrix of rows x channels. Such passes compute sums over the rows,
/// or use values of each channel.
namespace poseidon::layers::cuda {

/// The division of the matrix among the blocks of a grid. A block processes a band of rows
/// (Thread::block) and a group of channels (Thread::block_y). Its threads form lines of `across`
/// threads. A line covers the group's channels, and each thread processes `each` neighboring
/// channels. The lines process the band's rows in rotation. The division is the same on every
/// device, so the sums have equal bits on all devices.
struct RowTiling {
  static constexpr uint32_t kThreads = 256;
  static constexpr uint32_t kWarps = kThreads / kWarp;
  /// Limit on the blocks if the rows are divided into bands: about four for each multiprocessor of
  /// a large GPU.
  static constexpr uint32_t kBlocks = 512;

  uint32_t rows, channels;
  uint32_t each;
  uint32_t across;  ///< threads of a line: a power of two, at most a warp
  uint32_t rows_of_band = 1, bands = 1;

  /// `matrices`: number of matrices of this shape in the grid. Each is divided in the same way.
  RowTiling(int64_t row_count, int64_t channel_count, int each_count, int64_t matrices = 1)
      : rows(static_cast<uint32_t>(row_count)),
        channels(static_cast<uint32_t>(channel_count)),
        each(static_cast<uint32_t>(each_count)),
        across(threads_across(channels / each, each)) {
    const uint32_t most = std::max(
        1U, kBlocks / groups() / static_cast<uint32_t>(std::min<int64_t>(matrices, kBlocks)));
    const uint32_t lines = kThreads / across;
    rows_of_band = ((rows + most - 1) / most + lines - 1) / lines * lines;
    bands = (rows + rows_of_band - 1) / rows_of_band;
  }

  uint32_t groups() const { return (channels / each + across - 1) / across; }
  poseidon::cuda::Grid grid() const { return {.blocks = bands, .blocks_y = groups()}; }

  POSEIDON_DEVICE uint32_t channels_of_group() const { return across * each; }
  POSEIDON_DEVICE uint32_t rows_in(uint32_t band) const {
    const uint32_t left = rows - band * rows_of_band;
    return left < rows_of_band ? left : rows_of_band;
  }

 private:
  /// Returns the number of threads of a line. `parts`: number of threads for all channels. With
  /// packs (each > 1), the result is the largest of 32, 16 and 8 that divides `parts`. Then no
  /// thread is idle, and a line covers at least 128 contiguous bytes. If none of them divides
  /// `parts`, or without packs, the result is `parts` rounded up to a power of two, at most 32.
  static uint32_t threads_across(uint32_t parts, uint32_t each) {
    if (each > 1)
      for (const uint32_t across : {32U, 16U, 8U})
        if (parts % across == 0) return across;
    return std::min(kWarp, std::bit_ceil(parts));
  }
};

/// The rows and channels that one thread processes.
struct RowSpan {
  uint32_t count;    ///< number of rows
  uint32_t channel;  ///< the first channel
  int64_t offset;    ///< index of the first element
  int64_t stride;    ///< elements from one row of the thread to the next

  POSEIDON_DEVICE RowSpan(const Thread& thread, const RowTiling& tiling)
      : RowSpan(thread, tiling, thread.block()) {}
  POSEIDON_DEVICE RowSpan(const Thread& thread, const RowTiling& tiling, uint32_t band) {
    const uint32_t lines = RowTiling::kThreads / tiling.across;
    const uint32_t line = thread.thread() / tiling.across;
    channel = (thread.block_y() * tiling.across + thread.thread() % tiling.across) * tiling.each;
    const uint32_t rows = tiling.rows_in(band);
    count = channel < tiling.channels && line < rows ? (rows - line + lines - 1) / lines : 0;
    offset = int64_t{band * tiling.rows_of_band + line} * tiling.channels + channel;
    stride = int64_t{lines} * tiling.channels;
  }

  /// Calls body(rows, offset of the first row) for batches of kBatch rows, then for single rows.
  /// `rows` is an std::integral_constant. A body can load all rows of a batch before it waits for
  /// the first one.
  template <int kBatch, class Body>
  POSEIDON_DEVICE void for_batches(const Body& body) const {
    int64_t at = offset;
    uint32_t left = count;
    for (; left >= kBatch; left -= kBatch, at += kBatch * stride)
      body(std::integral_constant<int, kBatch>{}, at);
    for (; left > 0; --left, at += stride) body(std::integral_constant<int, 1>{}, at);
  }
};

/// The tiling of several matrices of one shape that lie one after another. Thread::block counts the
/// bands of all matrices, matrix by matrix.
struct MatrixTiling {
  RowTiling of_one;
  uint32_t matrices;

  MatrixTiling(int64_t count, int64_t rows, int64_t channels, int each)
      : of_one(rows, channels, each, count), matrices(static_cast<uint32_t>(count)) {}

  poseidon::cuda::Grid grid() const {
    return {.blocks = matrices * of_one.bands, .blocks_y = of_one.groups()};
  }
  int64_t count() const { return int64_t{matrices} * of_one.rows * of_one.channels; }
  /// The number of channels of all matrices together, and the index of a thread's first channel
  /// among them.
  int64_t channels_of_all() const { return int64_t{matrices} * of_one.channels; }
  POSEIDON_DEVICE int64_t channel_of_all(const Thread& thread, const RowSpan& span) const {
    return int64_t{matrix(thread)} * of_one.channels + span.channel;
  }
  /// The number of (matrix, channel, band) values.
  int64_t values_of_bands() const { return int64_t{matrices} * of_one.channels * of_one.bands; }

  POSEIDON_DEVICE uint32_t matrix(const Thread& thread) const {
    return thread.block() / of_one.bands;
  }
  POSEIDON_DEVICE uint32_t band(const Thread& thread) const {
    return thread.block() % of_one.bands;
  }
  POSEIDON_DEVICE RowSpan span(const Thread& thread) const {
    RowSpan span(thread, of_one, band(thread));
    span.offset += int64_t{matrix(thread)} * of_one.rows * of_one.channels;
    return span;
  }
  /// The index of a channel's first value among the (matrix, channel, band) values.
  POSEIDON_DEVICE int64_t values_at(uint32_t of_matrix, uint32_t channel) const {
    return (int64_t{of_matrix} * of_one.channels + channel) * of_one.bands;
  }
};

/// One value for each warp of a block and each channel of the block's group, in shared memory.
template <int kEach>
struct GroupValues {
  alignas(16) float of_warp[RowTiling::kWarps][kWarp * kEach];

  /// Sums the values over the lines of a warp, and stores the sums.
  POSEIDON_DEVICE void put_sums(const Thread& thread, uint32_t across, Channels<kEach> values) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) values[i] = reduce_warp(thread, values[i], Sum{}, across);
    put(thread, across, values);
  }
  /// Stores the values of the first line of a warp.
  POSEIDON_DEVICE void put(const Thread& thread, uint32_t across, const Channels<kEach>& values) {
    if (thread.lane() < across)
      store_channels<kEach>(of_warp[thread.warp()] + thread.lane() * kEach, values);
  }
};

/// The grid of a kernel that merges the values of all bands. One warp computes each result, which
/// is usually that of a channel.
struct ChannelWarp {
  static constexpr uint32_t kThreads = 256;

  static poseidon::cuda::Grid grid(uint32_t channels) {
    return {.blocks = poseidon::cuda::blocks_for(channels, kThreads / kWarp)};
  }
  static POSEIDON_DEVICE uint32_t channel(const Thread& thread) {
    return thread.block() * (kThreads / kWarp) + thread.warp();
  }
};

}  // namespace poseidon::layers::cuda
