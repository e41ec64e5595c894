#pragma once

#include <cstddef>
#include <optional>

#include "layers/cpu/scratch.h"
#include "layers/layer.h"

namespace poseidon::layers::cpu {

/// An order of a linear layer's weight in which the gradients of a block of outputs are contiguous.
/// The order is [outputs][inputs], or [outputs / strip][inputs][strip]. In the latter, inputs are
/// padded to a multiple of 16, and outputs to a multiple of the strip.
struct FactorOrder {
  int64_t strip = 0;  ///< 0: as [outputs][inputs]
};

/// Computes the gradients of a linear layer from stacked factors, by Poseidon's own product
/// (layers/cpu/product.h). Each element of the weight's gradient is one chain of multiply-adds in
/// the order of the samples. One thread computes each element, so the bits do not depend on the
/// number of threads.
class FactorRebuild {
 public:
  /// The FactorOrder of a weight; nullopt if the weight has another order.
  static std::optional<FactorOrder> order_of(const MemoryDesc& weight, const FactorShape& shape);

  FactorRebuild(CpuDevice& device, const FactorShape& shape, int64_t samples, FactorOrder order);

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
  /// If `first` is 0, overwrites the gradient. A vector has neighboring outputs in
  /// add_over_outputs(), and neighboring inputs in add_over_inputs().
  void add_over_outputs(const Block& block, int64_t first, int64_t depth) const;
  void add_over_inputs(const Block& block, int64_t first, int64_t depth) const;
  /// Whether a gradient that no sink reads is written past the caches: each element is written
  /// once, and the gradient is large.
  bool streams() const;
  int64_t padded_outputs(int64_t outputs) const;
  int64_t weights_of(int64_t outputs) const { return padded_outputs(outputs) * padded_inputs_; }

  CpuDevice& device_;
  FactorShape shape_;
  int64_t samples_;
  FactorOrder order_;
  int64_t padded_inputs_, outputs_of_block_;
};

}  // namespace poseidon::layers::cpu
