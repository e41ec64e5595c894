#pragma once

#include <optional>
#include <span>

#include "layers/cuda/cuda_layer.h"

/// Bias and fused relu of convolution and linear layers, forward and backward. Tensors are channels
/// last: a matrix of rows x channels, with one row for each position or sample.
namespace poseidon::layers::cuda {

/// Issues y = relu(y + bias) in place. `bias` null: no bias. `relu`: the negative slope; empty: no
/// relu. Issues nothing if both are missing.
void add_bias(CudaDevice& device, const Tensor& y, const float* bias, std::optional<float> relu);

/// Computes the gradient of a bias: for each channel, the sum of the output gradient over all rows.
/// One object serves tensors of one shape and element type. The order of the additions depends only
/// on shape and element type. Each block of a first kernel sums some of the rows. If there are
/// several partial sums, the first kernel writes them to scratch memory, and a second kernel adds
/// them.
class BiasGradient {
 public:
  BiasGradient(CudaDevice& device, int64_t rows, int64_t channels, DataType type);

  /// Bytes of scratch memory that combine() needs.
  size_t scratch_bytes() const;

  /// Issues combined_gradient(), and writes for each channel the sum of the combined gradient over
  /// the rows to `sums` (null: no sums). The pass that computes the sums also combines the output
  /// gradients. If there are more than kContributions gradients (map.cuh), separate kernels first
  /// add them.
  /// `memory.scratch` has scratch_bytes(). Returns the combined gradient.
  const Tensor& combine(const Bindings& memory, std::optional<float> relu, float* sums) const;

 private:
  /// The tensors that one pass reads and writes, except the sums. `contributions` are the output
  /// gradients, which the pass adds.
  struct Pass {
    std::span<const Tensor> contributions;
    const void* output = nullptr;  ///< output of the fused relu; null: no relu
    float slope = 0;               ///< negative slope of the relu
    void* combined = nullptr;      ///< receives the combined gradient; null: not written
  };
  template <class Element>
  void launch(const Pass& pass, float* sums, std::byte* scratch) const;
  void run(const Pass& pass, float* sums, std::byte* scratch) const;

  uint32_t blocks_across() const { return poseidon::cuda::blocks_for(packs_, width_); }
  uint32_t blocks_down() const { return poseidon::cuda::blocks_for(wide_rows_, rows_of_block_); }
  int64_t partial_sums() const { return int64_t{blocks_down()} * repeats_; }

  CudaDevice& device_;
  DataType type_;
  int64_t count_, channels_;
  /// A wide row is `repeats_` consecutive rows: the least number of rows whose elements fill whole
  /// packs of 16 bytes.
  uint32_t repeats_;
  uint32_t packs_;          ///< packs in a wide row
  uint32_t wide_rows_;      ///< wide rows of a tensor; the last one may have fewer rows
  uint32_t width_;          ///< packs of a wide row that one block processes
  uint32_t rows_of_block_;  ///< wide rows that one block processes
};

}  // namespace poseidon::layers::cuda
