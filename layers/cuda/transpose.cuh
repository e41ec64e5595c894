#pragma once

#include <algorithm>

#include "layers/cuda/map.cuh"

namespace poseidon::layers::cuda {

/// out[b][c][r] = in[b][r][c] for `batch` matrices of rows x columns, rounded if To is narrower. A
/// block moves a tile of 32 x 32 through shared memory, so that reads and writes are contiguous.
template <class From, class To>
struct TransposeKernel {
  static constexpr const char* kName = "transpose";
  static constexpr uint32_t kThreads = 256;
  static constexpr uint32_t kTile = 32;
  static constexpr uint32_t kStep = kThreads / kTile;  ///< rows of a tile processed at once
  struct Shared {
    float tile[kTile][kTile + 1];  // the extra column puts a column's elements in different banks
  };

  const From* in;
  To* out;
  uint32_t batch, rows, columns;

  uint32_t tiles_down() const { return (rows + kTile - 1) / kTile; }
  uint32_t tiles_across() const { return (columns + kTile - 1) / kTile; }
  poseidon::cuda::Grid grid() const { return {.blocks = batch * tiles_down() * tiles_across()}; }

  void visit(MemoryVisitor& visitor) const {
    const int64_t count = int64_t{batch} * rows * columns;
    visitor.reads(in, bytes_of_elements<From>(count));
    visitor.writes(out, bytes_of_elements<To>(count));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread, Shared& shared) const {
    const uint32_t across = (columns + kTile - 1) / kTile, down = (rows + kTile - 1) / kTile;
    const uint32_t left = thread.block() % across * kTile;
    const uint32_t top = thread.block() / across % down * kTile;
    const int64_t matrix = int64_t{thread.block() / across / down} * rows * columns;
    const uint32_t x = thread.thread() % kTile;
    for (uint32_t y = thread.thread() / kTile; y < kTile; y += kStep)
      if (top + y < rows && left + x < columns)
        shared.tile[y][x] = in[matrix + int64_t{top + y} * columns + left + x];
    thread.synchronize();
    for (uint32_t y = thread.thread() / kTile; y < kTile; y += kStep)
      if (left + y < columns && top + x < rows)
        out[matrix + int64_t{left + y} * rows + top + x] = shared.tile[x][y];
  }
};

/// Transposes matrices with few rows or few columns, for which a tile of 32 x 32 would be mostly
/// empty. A block covers the whole short dimension and a range of the long one. Its writes are
/// contiguous. Its reads are not, but only the first read of each cache line misses the cache.
template <class From, class To>
struct ThinTransposeKernel {
  static constexpr const char* kName = "thin transpose";
  static constexpr uint32_t kThreads = 256;
  static constexpr uint32_t kMostFew = 16;  ///< limit on the short dimension
  static constexpr uint32_t kTile = 1024;   ///< limit on the elements of a block

  const From* in;
  To* out;
  uint32_t batch, rows, columns;
  uint32_t tile_rows, tile_columns;

  static ThinTransposeKernel of(const From* in, To* out, uint32_t batch, uint32_t rows,
                                uint32_t columns) {
    const auto taken = [](uint32_t count, uint32_t others) {
      return others < count ? std::min(count, kTile / others) : count;
    };
    return {in, out, batch, rows, columns, taken(rows, columns), taken(columns, rows)};
  }
  poseidon::cuda::Grid grid() const {
    return {.blocks = batch * tiles(rows, tile_rows) * tiles(columns, tile_columns)};
  }

  void visit(MemoryVisitor& visitor) const {
    const int64_t count = int64_t{batch} * rows * columns;
    visitor.reads(in, bytes_of_elements<From>(count));
    visitor.writes(out, bytes_of_elements<To>(count));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const uint32_t across = tiles(columns, tile_columns), down = tiles(rows, tile_rows);
    const uint32_t left = thread.block() % across * tile_columns;
    const uint32_t top = thread.block() / across % down * tile_rows;
    const int64_t matrix = int64_t{thread.block() / across / down} * rows * columns;
    for (uint32_t i = thread.thread(); i < tile_rows * tile_columns; i += kThreads) {
      const uint32_t row = top + i % tile_rows, column = left + i / tile_rows;
      if (row < rows && column < columns)
        out[matrix + int64_t{column} * rows + row] =
            static_cast<float>(in[matrix + int64_t{row} * columns + column]);
    }
  }

 private:
  static constexpr uint32_t tiles(uint32_t count, uint32_t each) {
    return (count + each - 1) / each;
  }
};

/// out[i] = in[i], rounded if To is narrower.
template <class From, class To>
struct CastKernel {
  static constexpr const char* kName = "cast";
  static constexpr uint32_t kThreads = 256;
  /// Elements that a thread converts: a pack of the smaller type.
  static constexpr int kEach = kPack<From> > kPack<To> ? kPack<From> : kPack<To>;

  const From* in;
  To* out;
  int64_t count;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(in, bytes_of_elements<From>(count));
    visitor.writes(out, bytes_of_elements<To>(count));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const int64_t first = (int64_t{thread.block()} * kThreads + thread.thread()) * kEach;
    if (first + kEach > count) {
      for (int64_t i = first; i < count; ++i) out[i] = static_cast<float>(in[i]);
      return;
    }
    float values[kEach];
#pragma unroll
    for (int k = 0; k < kEach; k += kPack<From>) {
      const Pack<From> pack = load_pack(in + first + k);
#pragma unroll
      for (int i = 0; i < kPack<From>; ++i) values[k + i] = pack[i];
    }
#pragma unroll
    for (int k = 0; k < kEach; k += kPack<To>) {
      Pack<To> pack;
#pragma unroll
      for (int i = 0; i < kPack<To>; ++i) pack[i] = values[k + i];
      store_pack(out + first + k, pack);
    }
  }
};

template <class From, class To>
void cast(CudaDevice& device, const From* in, To* out, int64_t count) {
  using Kernel = CastKernel<From, To>;
  device.launch_for(poseidon::cuda::blocks_for(count, Kernel::kEach), Kernel{in, out, count});
}

/// Issues the transposition of `batch` matrices of rows x columns.
template <class From, class To>
void transpose(CudaDevice& device, const From* in, To* out, int64_t batch, int64_t rows,
               int64_t columns) {
  const auto matrices = static_cast<uint32_t>(batch), down = static_cast<uint32_t>(rows),
             across = static_cast<uint32_t>(columns);
  using Thin = ThinTransposeKernel<From, To>;
  if (std::min(down, across) <= Thin::kMostFew) {
    const Thin kernel = Thin::of(in, out, matrices, down, across);
    device.launch(kernel, kernel.grid());
  } else {
    const TransposeKernel<From, To> kernel{in, out, matrices, down, across};
    device.launch(kernel, kernel.grid());
  }
}

}  // namespace poseidon::layers::cuda
