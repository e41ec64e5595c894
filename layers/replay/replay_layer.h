#pragma once

#include <optional>
#include <vector>

#include "core/replay/replay_device.h"
#include "layers/layer.h"
#include "layers/replay/backend.h"

namespace poseidon::layers::replay {

using poseidon::replay::ReplayDevice;

/// Replaces a layer of any type. Each pass sleeps for a given time instead of computing. Parameters
/// are in canonical order.
class ReplayLayer final : public Layer {
 public:
  ReplayLayer(const LayerRequest& request, const LayerTime& time, ReplayDevice& device);

  void forward(const StepContext& step, const Bindings& memory) override;
  void backward(const StepContext& step, const Bindings& memory) override;
  void write_factors(const Bindings& memory, const FactorMemory& factors) override;
  void rebuild(const FactorMemory& factors, const Bindings& memory,
               const GradientSink* sink) override;

  int64_t packed_count(int index) const override { return counts_[static_cast<size_t>(index)]; }
  void pack(int index, const float* canonical, float* packed) const override;
  void unpack(int index, const float* packed, float* canonical) const override;
  bool packed_is_canonical(int) const override { return true; }

 private:
  const LayerTime time_;
  ReplayDevice& device_;
  const bool is_loss_;
  const bool gives_factors_;
  const std::optional<FactorShape> factors_;
  std::vector<int64_t> counts_;            ///< elements of each parameter
  std::vector<int64_t> statistic_counts_;  ///< elements of each statistic
};

}  // namespace poseidon::layers::replay
