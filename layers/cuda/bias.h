#pragma once

#include <optional>
#include <span>

#include "layers/cuda/cuda_layer.h"

/// What surrounds the products of layers with a bias for each channel. Channels lie side by side:
/// memory is rows, one for each sample or position, of one number for each channel.
namespace poseidon::layers::cuda {

/// Issues y = relu(y + bias) in place, where there is either.
void add_bias(CudaDevice& device, const Tensor& y, const float* bias, std::optional<float> relu);

/// Makes the gradients of a bias, the sums of each channel's gradients over all rows, of tensors of
/// one shape. The order of the additions depends on that shape alone.
class BiasGradient {
 public:
  BiasGradient(CudaDevice& device, int64_t rows, int64_t channels, DataType type);

  size_t scratch_bytes() const;

  /// Issues combined_gradient and, of what it gives, the sums, in one pass over memory. `sums`
  /// null: they are not wanted.
  const Tensor& combine(const Bindings& memory, std::optional<float> relu, float* sums) const;
  /// Issues the sums of fp32 rows.
  void sum(const float* gradient, float* sums, std::byte* scratch) const;

 private:
  /// What one pass reads and writes besides sums.
  struct Pass {
    std::span<const Tensor> contributions;
    const void* output = nullptr;  ///< of the relu; null: there is none
    float slope = 0;               ///< of the relu
    void* combined = nullptr;      ///< null: not wanted
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
  /// So many rows make a wide row, which is whole packs of 16 bytes, whatever the channels are.
  uint32_t repeats_;
  uint32_t packs_;          ///< of a wide row
  uint32_t wide_rows_;      ///< the last one may have fewer rows
  uint32_t width_;          ///< packs of a wide row that a block takes
  uint32_t rows_of_block_;  ///< wide rows that a block takes
};

}  // namespace poseidon::layers::cuda
