#pragma once

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
#include "trainer/step/averages.h"

namespace poseidon::trainer {

/// What all updates of one step have in common.
struct UpdateStep {
  int64_t step = 0;  ///< counted from 0
  double learning_rate = 0;
  double gradient_scale = 1;  ///< clipping
};

/// The optimizer's rule with its state: one or two tensors beside each parameter, in the memory
/// order of that parameter, in as many versions as the net has; and the averages that follow its
/// updates, where the job has them. Used by the compute thread.
class Optimizer {
 public:
  /// What state and averages take of memory, bytes. The net need not have taken any.
  static size_t bytes(const OptimizerConfig& config, net::Net& net);

  /// `net` and `updater` must outlive it. State begins at zero. Throws OutOfMemory.
  Optimizer(const OptimizerConfig& config, net::Net& net, layers::Updater& updater);

  /// From now on updates are those of `step`: what they depend on beside the tensors is brought to
  /// the device's memory.
  void begin(const UpdateStep& step);
  /// The same for a layer alone, whose gradients are in the net's memory: where has_trust().
  void begin(const UpdateStep& step, int layer);
  /// The next value and state of a parameter's elements from `first` on, from their gradients, in
  /// packed order. With one version they are the current ones; with two they become so by
  /// Parameters::flip and flip(). Pieces may be updated by several threads at a time.
  void update(size_t index, int64_t first, std::span<const float> gradient);
  /// The whole update, from the gradient in the net's memory; nothing where it is not learned.
  void update(size_t index);
  /// The next value of a statistic from its contribution, which holds the sum over all shards.
  void track(const net::Statistic& statistic, int64_t shards);
  /// Makes the next state and averages of a layer the current ones, as Parameters::flip does with
  /// values.
  void flip(int layer);

  /// What clipping multiplies all gradients by, from their common norm; 1 without clipping. All
  /// gradients must be final.
  double clipping_scale();
  bool clips() const { return config_.clip_norm > 0; }
  /// Whether a layer's updates depend on the norms of its values and gradients.
  bool has_trust() const { return form_.rule == layers::UpdateRule::kLars; }
  /// Whether an update needs the norm of the whole gradient first.
  bool needs_norms() const { return clips() || has_trust(); }

  /// A state tensor by its name in checkpoints, "conv1.weight.velocity".
  struct State {
    std::string name;
    size_t parameter = 0;
    net::TensorVersions versions;
  };
  std::span<const State> states() const { return states_; }
  /// Null where the job has none.
  Averages* averages() { return averages_ ? &*averages_ : nullptr; }

 private:
  layers::UpdateNumbers numbers(size_t index, const UpdateStep& step);
  void write_numbers(size_t first, size_t count, const UpdateStep& step);
  double trust_of(const net::Parameter& parameter, double decay);
  std::span<float> scratch(const net::Parameter& parameter);
  double gradient_norm(const net::Parameter& parameter);
  double value_norm(const net::Parameter& parameter);

  OptimizerConfig config_;
  const layers::UpdateForm form_;
  net::Net& net_;
  layers::Updater& updater_;
  std::vector<net::TensorMemory> memory_;  ///< by state, then those of the second version
  std::vector<State> states_;
  std::vector<std::span<State>> states_of_parameter_;
  std::vector<layers::UpdateNumbers> numbers_;  ///< by parameter, on their way
  Buffer numbers_there_;                        ///< where updates read them
  Buffer scratch_;
  std::optional<Averages> averages_;
};

}  // namespace poseidon::trainer
