#pragma once

#include "layers/cuda/map.cuh"

namespace poseidon::layers::cuda {

/// out[b][c][r] = in[b][r][c], of `batch` matrices of `rows` x `columns`, rounded where the types
/// differ. A block takes a tile of 32 x 32 through shared memory, so that it reads and writes
/// whole lines.
template <class From, class To>
struct TransposeKernel {
  static constexpr const char* kName = "transpose";
  static constexpr uint32_t kThreads = 256;
  static constexpr uint32_t kTile = 32;
  static constexpr uint32_t kStep = kThreads / kTile;  ///< rows of a tile that are taken at once
  struct Shared {
    float tile[kTile][kTile + 1];  // a column more, so that a column lies in all banks
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

/// out[i] = in[i], rounded.
template <class From, class To>
struct CastKernel {
  static constexpr const char* kName = "cast";
  static constexpr uint32_t kThreads = 256;
  /// As many elements as the smaller type packs.
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

/// Issues the transposes of `batch` matrices of `rows` x `columns`.
template <class From, class To>
void transpose(CudaDevice& device, const From* in, To* out, int64_t batch, int64_t rows,
               int64_t columns) {
  const TransposeKernel<From, To> kernel{in, out, static_cast<uint32_t>(batch),
                                         static_cast<uint32_t>(rows),
                                         static_cast<uint32_t>(columns)};
  device.launch(kernel, kernel.grid());
}

}  // namespace poseidon::layers::cuda
