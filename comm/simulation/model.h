#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/plan/plan.h"
#include "comm/wire/wire.h"

/// The computation of a simulated worker: gradients made up as a function of step, logical shard
/// and element, and an update that is easy to follow.
namespace poseidon::comm {

/// All values of a replica, by layer and tensor.
using Replica = std::vector<std::vector<std::vector<float>>>;

class ComputeModel {
 public:
  /// `plan` must outlive it.
  ComputeModel(const Plan& plan, uint64_t seed) : plan_(plan), seed_(seed) {}

  Replica first_values() const;
  /// The sum of the shards in `part` by the fixed tree.
  void gradient(uint64_t step, uint32_t layer, uint32_t tensor, Part part,
                std::span<float> out) const;
  /// Rows of a layer's factor for samples first to first + rows - 1 of the global batch.
  void factor(uint64_t step, uint32_t layer, uint32_t which, uint64_t first,
              std::span<float> out) const;
  /// The gradients of weight and bias from all rows.
  void rebuild(uint32_t layer, std::span<const float> deltas, std::span<const float> activations,
               std::vector<std::vector<float>>& sums) const;
  static void update(std::span<const float> value, std::span<const float> sum,
                     std::span<float> next);
  /// Makes the update of all values.
  static void update(Replica& values, const Replica& sums);
  static uint32_t digest(const Replica& replica);

 private:
  float made_up(uint64_t step, uint64_t shard, uint32_t layer, uint32_t tensor,
                uint64_t element) const;

  const Plan& plan_;
  const uint64_t seed_;
};

/// The digest of all values after `steps` steps, computed one shard after another: what every
/// undisturbed run must come to.
uint32_t reference_digest(const Plan& plan, uint64_t seed, int64_t steps);

}  // namespace poseidon::comm
