#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/plan/plan.h"
#include "comm/wire/wire.h"

/// The computation of a simulated worker: pseudorandom gradients as a function of step, logical
/// shard and element, and a simple update.
namespace poseidon::comm {

/// All values of a replica, by layer and tensor.
using Replica = std::vector<std::vector<std::vector<float>>>;

class ComputeModel {
 public:
  /// `plan` must outlive this object.
  ComputeModel(const Plan& plan, uint64_t seed) : plan_(plan), seed_(seed) {}

  Replica initial_values() const;
  /// Writes the sum of the gradients of the shards in `part`, by the fixed tree.
  void gradient(uint64_t step, uint32_t layer, uint32_t tensor, Part part,
                std::span<float> out) const;
  /// Writes the sum of the gradients of all shards, as the plan's wire format rounds it. bf16
  /// rounds the sum of each worker, which this function does not.
  void sum(uint64_t step, uint32_t layer, uint32_t tensor, std::span<float> out) const;
  /// Writes rows of a layer's factor, for consecutive samples of the global batch from `first` on.
  void factor(uint64_t step, uint32_t layer, uint32_t which, uint64_t first,
              std::span<float> out) const;
  /// Computes the sums of the gradients of weight and bias from the factors of all samples.
  void rebuild(uint32_t layer, std::span<const float> deltas, std::span<const float> activations,
               std::vector<std::vector<float>>& sums) const;
  static void update(std::span<const float> value, std::span<const float> sum,
                     std::span<float> next);
  /// Updates all values.
  static void update(Replica& values, const Replica& sums);
  static uint32_t digest(const Replica& replica);

 private:
  float made_up(uint64_t step, uint64_t shard, uint32_t layer, uint32_t tensor,
                uint64_t element) const;

  const Plan& plan_;
  const uint64_t seed_;
};

/// The digest of all values after `steps` steps, computed without a network. Every undisturbed run
/// must reach it.
uint32_t reference_digest(const Plan& plan, uint64_t seed, int64_t steps);

}  // namespace poseidon::comm
