#pragma once

#include "core/device.h"
#include "layers/layer.h"

namespace poseidon::trainer {

/// The factors of one layer for all samples of the global batch, in their order: those of the
/// logical shards one after another. In staging memory: those of peers come in there.
class StackedFactors {
 public:
  StackedFactors(Device& device, const layers::FactorShape& shape, int64_t samples)
      : shape_(shape),
        deltas_(device.allocate(bytes(samples, shape.rows), Place::kStaging, "factors")),
        activations_(device.allocate(bytes(samples, shape.columns), Place::kStaging, "factors")) {}

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
