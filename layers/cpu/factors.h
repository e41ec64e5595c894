#pragma once

#include <cstddef>
#include <optional>

#include "layers/cpu/scratch.h"
#include "layers/layer.h"

namespace poseidon::layers::cpu {

/// How a linear layer keeps its weight, where the gradients of a block of outputs lie in one piece:
/// as [outputs][inputs], or as [outputs / strip][inputs][strip] with the inputs padded to a
/// multiple of 16, the outputs to one of the strip.
struct FactorOrder {
  int64_t strip = 0;  ///< 0: as [outputs][inputs]
};

/// Makes the gradients of a linear layer from stacked factors, by the engine's own product
/// (layers/cpu/product.h): each element is one chain of fused multiply-adds in the order of the
/// samples. Threads compute fixed blocks of outputs, so their number changes no bit.
class FactorRebuild {
 public:
  /// The order of a weight, where it is one of these.
  static std::optional<FactorOrder> order_of(const MemoryDesc& weight, const FactorShape& shape);

  FactorRebuild(CpuDevice& device, const FactorShape& shape, int64_t samples, FactorOrder order);

  size_t scratch_bytes() const;
  /// As Layer::rebuild.
  void run(const FactorMemory& factors, const Bindings& memory, const GradientSink* sink) const;

 private:
  /// Outputs that one thread computes: their factors, gradients and panels.
  struct Block {
    int64_t outputs;
    const float *deltas, *activations;
    float *weight, *bias;  ///< bias: nullptr without one
    float *panels_of_outputs, *panels_of_inputs;
  };
  void run_block(const Block& block) const;
  /// Adds `depth` samples from `first` on. Vectors of the weight run over outputs, or over inputs.
  void add_over_outputs(const Block& block, int64_t first, int64_t depth) const;
  void add_over_inputs(const Block& block, int64_t first, int64_t depth) const;
  int64_t padded_outputs(int64_t outputs) const;
  int64_t weights_of(int64_t outputs) const { return padded_outputs(outputs) * padded_inputs_; }

  CpuDevice& device_;
  FactorShape shape_;
  int64_t samples_;
  FactorOrder order_;
  int64_t padded_inputs_, outputs_of_block_;
};

}  // namespace poseidon::layers::cpu
