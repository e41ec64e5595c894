#pragma once

#include <cstddef>
#include <optional>

#include "layers/cpu/scratch.h"
#include "layers/layer.h"

namespace poseidon::layers::cpu {

/// Makes the gradients of a linear layer from stacked factors, in fixed blocks of outputs, each of
/// which one thread computes by code made for one thread: bits do not depend on the number of
/// threads.
class FactorRebuild {
 public:
  /// The order a weight is kept in, when a block of its outputs lies in one piece in it: only for
  /// such weights can there be a FactorRebuild.
  static std::optional<dnnl::memory::format_tag> order_of(const MemoryDesc& weight,
                                                          const FactorShape& shape);

  FactorRebuild(CpuDevice& device, const FactorShape& shape, int64_t samples,
                dnnl::memory::format_tag weight_order);

  size_t scratch_bytes() const;
  /// As Layer::rebuild.
  void run(const FactorMemory& factors, const Bindings& memory, const GradientSink* sink) const;

 private:
  /// The computation of one block.
  struct Block {
    int64_t outputs = 0;
    MemoryDesc activations, deltas, weight, bias, scratchpad;
    dnnl::inner_product_backward_weights primitive;
  };
  Block make_block(int64_t outputs, dnnl::memory::format_tag weight_order) const;
  void run_block(const Block& block, int64_t first_output, const FactorMemory& factors,
                 float* weight_gradient, float* bias_gradient, std::byte* scratch) const;
  /// Elements of the weight before the block that begins with this output.
  int64_t elements_before(int64_t first_output) const;
  size_t scratch_of_thread() const;

  CpuDevice& device_;
  FactorShape shape_;
  int64_t samples_;
  Block full_, last_;  ///< the last one may have fewer outputs
};

}  // namespace poseidon::layers::cpu
