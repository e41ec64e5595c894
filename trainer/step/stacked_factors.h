#pragma once

#include "core/buffer.h"
#include "layers/layer.h"

namespace poseidon::trainer {

/// The factors of one layer for all samples of the global batch, in their order: those of the
/// logical shards one after another.
class StackedFactors {
 public:
  StackedFactors(const layers::FactorShape& shape, int64_t samples)
      : shape_(shape),
        deltas_(bytes(samples, shape.rows), "factors"),
        activations_(bytes(samples, shape.columns), "factors") {}

  /// What they take of memory.
  static size_t bytes(const layers::FactorShape& shape, int64_t samples) {
    return bytes(samples, shape.rows) + bytes(samples, shape.columns);
  }

  /// From sample `first` on.
  layers::FactorMemory from(int64_t first) const {
    return {.deltas = deltas_.as<float>().data() + first * shape_.rows,
            .activations = activations_.as<float>().data() + first * shape_.columns};
  }
  layers::FactorMemory all() const { return from(0); }

 private:
  static size_t bytes(int64_t samples, int64_t width) {
    return static_cast<size_t>(samples * width) * sizeof(float);
  }

  layers::FactorShape shape_;
  Buffer deltas_, activations_;
};

}  // namespace poseidon::trainer
