#pragma once

#include "core/device.h"
#include "layers/layer.h"

namespace poseidon::trainer {

/// The sufficient factors of one layer for a number of samples, in the samples' order in the global
/// batch. Each sample has layers::FactorShape::deltas and ::activations values.
class StackedFactors {
 public:
  StackedFactors(Device& device, const layers::FactorShape& shape, int64_t samples,
                 MemoryKind place)
      : shape_(shape),
        deltas_(device.allocate(bytes(samples, shape.deltas), place, "factors")),
        activations_(device.allocate(bytes(samples, shape.activations), place, "factors")) {}

  /// Bytes of memory of the factors.
  static size_t bytes(const layers::FactorShape& shape, int64_t samples) {
    return bytes(samples, shape.deltas) + bytes(samples, shape.activations);
  }

  /// The memory from sample `first` on.
  layers::FactorMemory from(int64_t first) const {
    return {.deltas = deltas_.as<float>().data() + first * shape_.deltas,
            .activations = activations_.as<float>().data() + first * shape_.activations};
  }
  layers::FactorMemory all() const { return from(0); }
  /// Issues a copy of all factors to `stack`, from its sample `first` on.
  void copy_to(const StackedFactors& stack, int64_t first, Device& device) const {
    const auto copy = [&](const Buffer& from, const Buffer& to, int64_t width) {
      device.copy(from.as<float>(), to.as<float>().subspan(static_cast<size_t>(first * width),
                                                           from.as<float>().size()));
    };
    copy(deltas_, stack.deltas_, shape_.deltas);
    copy(activations_, stack.activations_, shape_.activations);
  }

 private:
  static size_t bytes(int64_t samples, int64_t width) {
    return static_cast<size_t>(samples * width) * sizeof(float);
  }

  layers::FactorShape shape_;
  Buffer deltas_, activations_;
};

}  // namespace poseidon::trainer
