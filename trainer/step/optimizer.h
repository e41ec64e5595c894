#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "layers/update.h"
#include "net/net.h"
#include "net/tensor_memory.h"
#include "net/tensor_versions.h"
#include "trainer/job/optimizer_config.h"
#include "trainer/step/ema.h"

namespace poseidon::trainer {

/// Values that all updates of one step share.
struct UpdateStep {
  int64_t step = 0;  ///< counted from 0
  double learning_rate = 0;
  double gradient_scale = 1;  ///< factor of gradient clipping
};

/// The optimizer's update rule and its state. Each learned parameter has zero to two state tensors,
/// with the parameter's memory order and the net's number of versions. The optimizer also updates
/// the EMA, if the job has one. Used by the compute thread.
class Optimizer {
 public:
  /// Bytes of memory of state and EMA. The net need not have allocated its memory.
  static size_t bytes(const OptimizerConfig& config, net::Net& net);

  /// `net` and `updater` must outlive it. The initial state is zero. Throws OutOfMemory.
  Optimizer(const OptimizerConfig& config, net::Net& net, layers::Updater& updater);

  /// Begins the updates of `step`. Copies their scalar parameters, such as the learning rate, to
  /// device memory.
  void begin(const UpdateStep& step);
  /// As begin(step), for one layer only. Required if has_trust(): the scalar parameters then depend
  /// on the layer's gradients, which the net's memory must hold.
  void begin(const UpdateStep& step, int layer);
  /// Computes the next value and state of a parameter's elements from `first` on, from their
  /// gradients in packed order. With one version, the results replace the current value and state.
  /// With two versions, Parameters::flip and flip() make the results current. Several threads may
  /// update different pieces at once.
  void update(size_t index, int64_t first, std::span<const float> gradient);
  /// Calls `updates`, which may call update() and track(). See layers::Updater::combine_updates.
  void combine(const std::function<void()>& updates) { updater_.combine_updates(updates); }
  /// Updates the whole parameter from the gradient in the net's memory. Does nothing if the
  /// parameter is not learned.
  void update(size_t index);
  /// Computes the next value of a statistic from its contribution, which holds the sum over all
  /// shards; `shards` is their number.
  void track(const net::Statistic& statistic, int64_t shards);
  /// Makes the next state and averages of a layer the current ones, as Parameters::flip does for
  /// values.
  void flip(int layer);

  /// Returns the factor by which gradient clipping multiplies all gradients of the step; 1 without
  /// clipping. The factor depends on their common norm. All gradients of the step must be in the
  /// net's memory.
  double clipping_scale();
  bool clips() const { return config_.clip_norm > 0; }
  /// Whether the rule is LARS, whose updates depend on the norms of values and gradients.
  bool has_trust() const { return form_.rule == layers::UpdateRule::kLars; }
  /// Whether an update first needs the norm of the whole gradient.
  bool needs_norms() const { return clips() || has_trust(); }

  /// A state tensor with its name in checkpoints, such as "conv1.weight.velocity".
  struct State {
    std::string name;
    size_t parameter = 0;
    net::TensorVersions versions;
  };
  std::span<const State> states() const { return states_; }
  /// The EMA; null if the job has none.
  Ema* averages() { return averages_ ? &*averages_ : nullptr; }

 private:
  layers::UpdateParameters update_parameters(size_t index, const UpdateStep& step);
  void write_update_parameters(size_t first, size_t count, const UpdateStep& step);
  double trust_of(const net::Parameter& parameter, double decay);
  std::span<float> scratch(const net::Parameter& parameter);
  double squared_gradient_norm(const net::Parameter& parameter);
  double squared_value_norm(const net::Parameter& parameter);

  OptimizerConfig config_;
  const layers::UpdateForm form_;
  net::Net& net_;
  layers::Updater& updater_;
  std::vector<net::TensorMemory> memory_;  ///< first versions of each state, then second versions
  std::vector<State> states_;
  std::vector<std::span<State>> states_of_parameter_;
  std::vector<layers::UpdateParameters>
      update_parameters_;            ///< by parameter; host copy of device_update_parameters_
  Buffer device_update_parameters_;  ///< device copy of update_parameters_, which updates read
  Buffer scratch_;
  std::optional<Ema> averages_;
};

}  // namespace poseidon::trainer
