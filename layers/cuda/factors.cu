#include "layers/cuda/factors.h"

#include <cmath>

#include "layers/cuda/factor_operands.cuh"

namespace poseidon::layers::cuda {

namespace {

/// weight[group][output][column] = the sum over the rows of deltas[row][group, output] *
/// activations[row][group, column], and bias[group, output] = the sum of deltas[row][group, output]
/// in BiasSum. A row is a sample, or a sample and a position. `Activations`: factor_operands.cuh.
///
/// A block computes a tile of kTile x kTile elements. A thread computes 8 x 8 of them: two packs of
/// outputs times two packs of columns, half a tile apart, so that neighboring threads read
/// neighboring packs of shared memory. While a block multiplies kDepth rows, its threads load the
/// next ones to registers. The blocks of a group's first columns also sum the bias's gradient.
template <class Activations, class BiasSum>
struct RebuildKernel {
  static constexpr const char* kName = "gradient from factors";
  static constexpr uint32_t kThreads = 256;
  static constexpr uint32_t kTile = 128, kHalf = kTile / 2, kDepth = 16;
  static constexpr uint32_t kWidth = kPack<float>;
  static constexpr uint32_t kPacks = kTile / kWidth;  ///< packs of a sample in a tile
  /// Packs that a thread loads, of each factor and kDepth samples.
  static constexpr uint32_t kLoads = kDepth * kPacks / kThreads;
  static constexpr uint32_t kRow = kHalf / kWidth;  ///< threads along one side of a tile

  static_assert(kThreads % kPacks == 0, "a thread loads the same columns of all rows");

  using Values = Pack<float>;
  struct Shared {
    alignas(16) float deltas[kDepth][kTile];
    alignas(16) float activations[kDepth][kTile];
  };
  struct Loaded {
    Values deltas[kLoads], activations[kLoads];
  };
  struct Sums {
    Values of[2][kWidth][2];  ///< [half of the outputs][output][half of the columns]
  };
  /// The columns that a thread loads.
  struct Columns {
    FactorMatrix::Columns deltas;
    typename Activations::Columns activations;
  };

  FactorMatrix deltas;
  Activations activations;
  float* weight;
  float* bias;  ///< may be null
  uint32_t groups;

  poseidon::cuda::Grid grid() const {
    return {.blocks = groups * poseidon::cuda::blocks_for(activations.columns, kTile),
            .blocks_y = poseidon::cuda::blocks_for(deltas.columns, kTile)};
  }

  void visit(MemoryVisitor& visitor) const {
    deltas.visit(visitor);
    activations.visit(visitor);
    const int64_t outputs = int64_t{groups} * deltas.columns;
    visitor.writes(weight, bytes_of_elements<float>(outputs * activations.columns));
    if (bias != nullptr) visitor.writes(bias, bytes_of_elements<float>(outputs));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread, Shared& shared) const {
    const uint32_t across = (activations.columns + kTile - 1) / kTile;
    const uint32_t group = thread.block() / across;
    const uint32_t output = thread.block_y() * kTile, column = thread.block() % across * kTile;
    const uint32_t loaded_column = thread.thread() % kPacks * kWidth;
    const Columns at{deltas.columns_at(group, output + loaded_column),
                     activations.columns_at(group, column + loaded_column)};
    const bool sums_bias = bias != nullptr && column == 0 && thread.thread() < kTile;
    Sums sums{};
    BiasSum bias_sum = 0;
    Loaded loaded = load(thread, 0, at);
    for (uint32_t row = 0; row < deltas.rows; row += kDepth) {
      store(thread, loaded, shared);
      thread.synchronize();
      if (row + kDepth < deltas.rows) loaded = load(thread, row + kDepth, at);
      const uint32_t depth = row + kDepth <= deltas.rows ? kDepth : deltas.rows - row;
      if (depth == kDepth)
        multiply(thread, shared, kDepth, sums);
      else
        multiply(thread, shared, depth, sums);
      if (sums_bias)
        for (uint32_t k = 0; k < depth; ++k)
          bias_sum += static_cast<BiasSum>(shared.deltas[k][thread.thread()]);
      thread.synchronize();
    }
    write(thread, sums, group, output, column);
    if (sums_bias && output + thread.thread() < deltas.columns)
      bias[group * deltas.columns + output + thread.thread()] = static_cast<float>(bias_sum);
  }

  POSEIDON_DEVICE Loaded load(const Thread& thread, uint32_t row, const Columns& at) const {
    Loaded loaded;
#pragma unroll
    for (uint32_t i = 0; i < kLoads; ++i) {
      const uint32_t from = row + (thread.thread() + i * kThreads) / kPacks;
      loaded.deltas[i] = deltas.load(from, at.deltas);
      loaded.activations[i] = activations.load(from, at.activations);
    }
    return loaded;
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

  POSEIDON_DEVICE void write(const Thread& thread, const Sums& sums, uint32_t group,
                             uint32_t output, uint32_t column) const {
    output += thread.thread() / kRow * kWidth;
    column += thread.thread() % kRow * kWidth;
#pragma unroll
    for (uint32_t i = 0; i < 4 * kWidth; ++i) {
      const uint32_t top = i / (2 * kWidth), y = i / 2 % kWidth, left = i % 2;
      const uint32_t row = output + top * kHalf + y, first = column + left * kHalf;
      if (row < deltas.columns && first < activations.columns)
        write_values(sums.of[top][y][left], group * deltas.columns + row, first);
    }
  }

  POSEIDON_DEVICE void write_values(const Values& values, uint32_t row, uint32_t column) const {
    float* to = weight + int64_t{row} * activations.columns + column;
    if (activations.columns % kWidth == 0) return store_pack(to, values);
#pragma unroll
    for (uint32_t i = 0; i < kWidth; ++i)
      if (column + i < activations.columns) to[i] = values[static_cast<int>(i)];
  }
};

/// The memory of the gradients. `bias` may be null.
struct RebuiltGradients {
  float* weight;
  float* bias;
};

template <class BiasSum, class Activations>
void issue_rebuild(CudaDevice& device, const FactorMatrix& deltas, const Activations& activations,
                   const RebuiltGradients& to, int64_t groups) {
  const RebuildKernel<Activations, BiasSum> kernel{.deltas = deltas,
                                                   .activations = activations,
                                                   .weight = to.weight,
                                                   .bias = to.bias,
                                                   .groups = static_cast<uint32_t>(groups)};
  device.launch(kernel, kernel.grid());
}

FactorMatrix matrix_of(const float* values, int64_t rows, int64_t columns, int64_t groups) {
  return {.values = values,
          .rows = static_cast<uint32_t>(rows),
          .columns = static_cast<uint32_t>(columns / groups),
          .stride = static_cast<uint32_t>(columns)};
}

size_t aligned_for_tensor(size_t bytes) {
  constexpr size_t kAlignment = 64;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

void rebuild_gradients(CudaDevice& device, const FactorShape& shape, int64_t samples,
                       const FactorMemory& factors, float* weight, float* bias) {
  issue_rebuild<float>(device, matrix_of(factors.deltas, samples, shape.deltas, 1),
                       matrix_of(factors.activations, samples, shape.activations, 1),
                       {weight, bias}, 1);
}

void rebuild_gradients(CudaDevice& device, const Convolution& stacked, const FactorMemory& factors,
                       float* weight, float* bias) {
  const int64_t rows = stacked.output.samples() * stacked.output.area(), groups = stacked.groups;
  const FactorMatrix deltas = matrix_of(factors.deltas, rows, stacked.outputs, groups);
  const RebuiltGradients to{weight, bias};
  if (stacked.reads_single_cells())
    issue_rebuild<double>(device, deltas,
                          matrix_of(factors.activations, rows, stacked.input.channels(), groups),
                          to, groups);
  else
    issue_rebuild<double>(device, deltas, FactorPatches::of(stacked, factors.activations), to,
                          groups);
}

FactorScratch::FactorScratch(const FactorShape& shape, int64_t samples, size_t passes_bytes)
    : deltas_offset_(aligned_for_tensor(passes_bytes)),
      deltas_bytes_(bytes_of_elements<float>(samples * shape.deltas)),
      activations_bytes_(bytes_of_elements<float>(samples * shape.activations)) {
  activations_offset_ = deltas_offset_ + aligned_for_tensor(deltas_bytes_);
}

FactorMemory FactorScratch::memory(std::byte* scratch) const {
  return {.deltas = reinterpret_cast<float*>(scratch + deltas_offset_),
          .activations = reinterpret_cast<float*>(scratch + activations_offset_)};
}

FactorMemory FactorScratch::copy(CudaDevice& device, const FactorMemory& stacked,
                                 std::byte* scratch) const {
  const FactorMemory to = memory(scratch);
  device.copy(stacked.deltas, to.deltas, deltas_bytes_);
  device.copy(stacked.activations, to.activations, activations_bytes_);
  return to;
}

}  // namespace poseidon::layers::cuda
