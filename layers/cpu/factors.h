#pragma once

#include <cstddef>

#include "layers/cpu/scratch.h"
#include "layers/layer.h"

namespace poseidon::layers::cpu {

/// Computes the gradients of a linear layer from stacked factors, by Poseidon's own product
/// (layers/cpu/product.h). The gradient of the weight is in linear_weight_order
/// (layers/cpu/linear_product.h). In this order, a block of outputs is contiguous. Each element of
/// the gradient is one chain of multiply-adds in the order of the samples. One thread computes each
/// element, so the bits do not depend on the number of threads.
class FactorRebuild {
 public:
  FactorRebuild(CpuDevice& device, const FactorShape& shape, int64_t samples);

  size_t scratch_bytes() const;
  /// See Layer::rebuild.
  void run(const FactorMemory& factors, const Bindings& memory, const GradientSink* sink) const;

 private:
  /// A block of outputs that one thread computes: its factors, gradients and panels.
  struct Block {
    int64_t outputs;
    const float *deltas, *activations;
    float *weight, *bias;  ///< bias: nullptr if the layer has no bias
    float *panels_of_outputs, *panels_of_inputs;
    bool streams;  ///< the weight's gradient is written past the caches
  };
  /// Computes block `index`, in the memory of `task`.
  void compute_block(int64_t index, int64_t task, const FactorMemory& factors,
                     const Bindings& memory, const GradientSink* sink) const;
  void run_block(const Block& block) const;
  /// Adds the products of `depth` samples, from sample `first` on, to the block's weight gradient.
  /// If `first` is 0, overwrites the gradient. A vector has neighboring outputs.
  void add_samples(const Block& block, int64_t first, int64_t depth) const;
  /// Whether a gradient that no sink reads is written past the caches: each element is written
  /// once, and the gradient is large.
  bool streams() const;
  /// Elements of the gradients of the weights of `outputs` outputs, with padding.
  int64_t weights_of(int64_t outputs) const;

  CpuDevice& device_;
  FactorShape shape_;
  int64_t samples_;
  int64_t padded_inputs_, outputs_of_block_;
};

}  // namespace poseidon::layers::cpu
