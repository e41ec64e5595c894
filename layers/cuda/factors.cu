#include "layers/cuda/factors.h"

#include <cmath>

#include "layers/cuda/map.cuh"

namespace poseidon::layers::cuda {

namespace {

/// weight[output][input] = the sum of deltas[sample][output] * activations[sample][input].
///
/// A block computes a tile of kTile x kTile elements. A thread computes 8 x 8 of them: two packs of
/// outputs times two packs of inputs, half a tile apart, so that neighboring threads read
/// neighboring packs of shared memory. While a block multiplies kDepth samples, its threads load
/// the next ones to registers.
struct RebuildKernel {
  static constexpr const char* kName = "gradient from factors";
  static constexpr uint32_t kThreads = 256;
  static constexpr uint32_t kTile = 128, kHalf = kTile / 2, kDepth = 16;
  static constexpr uint32_t kWidth = kPack<float>;
  static constexpr uint32_t kPacks = kTile / kWidth;  ///< packs of a sample in a tile
  /// Packs that a thread loads, of each factor and kDepth samples.
  static constexpr uint32_t kLoads = kDepth * kPacks / kThreads;
  static constexpr uint32_t kRow = kHalf / kWidth;  ///< threads along one side of a tile

  using Values = Pack<float>;
  struct Shared {
    alignas(16) float deltas[kDepth][kTile];
    alignas(16) float activations[kDepth][kTile];
  };
  struct Loaded {
    Values deltas[kLoads], activations[kLoads];
  };
  struct Sums {
    Values of[2][kWidth][2];  ///< [half of the outputs][output][half of the inputs]
  };

  const float* deltas;
  const float* activations;
  float* weight;
  uint32_t samples, outputs, inputs;

  poseidon::cuda::Grid grid() const {
    return {.blocks = poseidon::cuda::blocks_for(inputs, kTile),
            .blocks_y = poseidon::cuda::blocks_for(outputs, kTile)};
  }

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(deltas, bytes_of_elements<float>(int64_t{samples} * outputs));
    visitor.reads(activations, bytes_of_elements<float>(int64_t{samples} * inputs));
    visitor.writes(weight, bytes_of_elements<float>(int64_t{outputs} * inputs));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread, Shared& shared) const {
    const uint32_t output = thread.block_y() * kTile, input = thread.block() * kTile;
    Sums sums{};
    Loaded loaded = load(thread, 0, output, input);
    for (uint32_t sample = 0; sample < samples; sample += kDepth) {
      store(thread, loaded, shared);
      thread.synchronize();
      if (sample + kDepth < samples) loaded = load(thread, sample + kDepth, output, input);
      if (sample + kDepth <= samples)
        multiply(thread, shared, kDepth, sums);
      else
        multiply(thread, shared, samples - sample, sums);
      thread.synchronize();
    }
    write(thread, sums, output, input);
  }

  POSEIDON_DEVICE Loaded load(const Thread& thread, uint32_t sample, uint32_t output,
                              uint32_t input) const {
    Loaded loaded;
#pragma unroll
    for (uint32_t i = 0; i < kLoads; ++i) {
      const uint32_t number = thread.thread() + i * kThreads;
      const uint32_t row = sample + number / kPacks, column = number % kPacks * kWidth;
      loaded.deltas[i] = load_values(deltas, outputs, row, output + column);
      loaded.activations[i] = load_values(activations, inputs, row, input + column);
    }
    return loaded;
  }

  /// A pack of one sample. Values outside the factor are zero.
  POSEIDON_DEVICE Values load_values(const float* factor, uint32_t columns, uint32_t row,
                                     uint32_t column) const {
    Values values{};
    if (row >= samples) return values;
    const float* from = factor + int64_t{row} * columns + column;
    if (columns % kWidth == 0) return column < columns ? load_pack(from) : values;
#pragma unroll
    for (uint32_t i = 0; i < kWidth; ++i)
      if (column + i < columns) values[i] = from[i];
    return values;
  }

  POSEIDON_DEVICE void store(const Thread& thread, const Loaded& loaded, Shared& shared) const {
#pragma unroll
    for (uint32_t i = 0; i < kLoads; ++i) {
      const uint32_t number = thread.thread() + i * kThreads;
      const uint32_t row = number / kPacks, column = number % kPacks * kWidth;
      store_pack(&shared.deltas[row][column], loaded.deltas[i]);
      store_pack(&shared.activations[row][column], loaded.activations[i]);
    }
  }

  POSEIDON_DEVICE void multiply(const Thread& thread, const Shared& shared, uint32_t depth,
                                Sums& sums) const {
    const uint32_t down = thread.thread() / kRow * kWidth, right = thread.thread() % kRow * kWidth;
#pragma unroll 8
    for (uint32_t k = 0; k < depth; ++k) {
      const Values of_outputs[2] = {load_pack(&shared.deltas[k][down]),
                                    load_pack(&shared.deltas[k][kHalf + down])};
      const Values of_inputs[2] = {load_pack(&shared.activations[k][right]),
                                   load_pack(&shared.activations[k][kHalf + right])};
#pragma unroll
      for (uint32_t i = 0; i < 4 * kWidth * kWidth; ++i) {
        const uint32_t top = i / (2 * kWidth * kWidth), y = i / (2 * kWidth) % kWidth;
        const uint32_t left = i / kWidth % 2, x = i % kWidth;
        float& sum = sums.of[top][y][left][static_cast<int>(x)];
        sum =
            ::fmaf(of_outputs[top][static_cast<int>(y)], of_inputs[left][static_cast<int>(x)], sum);
      }
    }
  }

  POSEIDON_DEVICE void write(const Thread& thread, const Sums& sums, uint32_t output,
                             uint32_t input) const {
    output += thread.thread() / kRow * kWidth;
    input += thread.thread() % kRow * kWidth;
#pragma unroll
    for (uint32_t i = 0; i < 4 * kWidth; ++i) {
      const uint32_t top = i / (2 * kWidth), y = i / 2 % kWidth, left = i % 2;
      const uint32_t row = output + top * kHalf + y, column = input + left * kHalf;
      if (row < outputs && column < inputs) write_values(sums.of[top][y][left], row, column);
    }
  }

  POSEIDON_DEVICE void write_values(const Values& values, uint32_t row, uint32_t column) const {
    float* to = weight + int64_t{row} * inputs + column;
    if (inputs % kWidth == 0) return store_pack(to, values);
#pragma unroll
    for (uint32_t i = 0; i < kWidth; ++i)
      if (column + i < inputs) to[i] = values[static_cast<int>(i)];
  }
};

/// out[c] = the sum of in[r][c] over r, in ascending order.
struct RebuildBiasKernel {
  static constexpr const char* kName = "gradient of a bias from factors";
  static constexpr uint32_t kThreads = 64;

  const float* in;
  float* out;
  uint32_t rows, columns;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(in, bytes_of_elements<float>(int64_t{rows} * columns));
    visitor.writes(out, bytes_of_elements<float>(columns));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const uint32_t column = thread.block() * kThreads + thread.thread();
    if (column >= columns) return;
    float sum = 0;
#pragma unroll 8
    for (uint32_t row = 0; row < rows; ++row) sum += in[int64_t{row} * columns + column];
    out[column] = sum;
  }
};

}  // namespace

void rebuild_gradients(CudaDevice& device, const FactorShape& shape, int64_t samples,
                       const FactorMemory& factors, float* weight, float* bias) {
  const auto count = static_cast<uint32_t>(samples);
  const auto outputs = static_cast<uint32_t>(shape.deltas);
  const RebuildKernel kernel{.deltas = factors.deltas,
                             .activations = factors.activations,
                             .weight = weight,
                             .samples = count,
                             .outputs = outputs,
                             .inputs = static_cast<uint32_t>(shape.activations)};
  device.launch(kernel, kernel.grid());
  if (bias == nullptr) return;
  device.launch_for(
      shape.deltas,
      RebuildBiasKernel{.in = factors.deltas, .out = bias, .rows = count, .columns = outputs});
}

}  // namespace poseidon::layers::cuda
