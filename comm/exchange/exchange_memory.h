#pragma once

#include <cstdint>
#include <span>

#include "comm/plan/plan.h"

namespace poseidon::comm {

/// The memory of a worker's sums and factors; fp32, canonical order. The compute thread reads a
/// layer's memory between the arrival of the layer's sums and the layer's next contribution.
class ExchangeMemory {
 public:
  virtual ~ExchangeMemory() = default;
  /// Returns the memory for the sum of a tensor; steps in flight have separate memory. `layer` and
  /// `tensor` are indices in the plan. The sum may share the memory of the contribution, because a
  /// server sends a sum only after the contribution has arrived.
  virtual std::span<float> sum(uint32_t layer, uint32_t tensor, uint64_t step) = 0;
  /// Returns the memory for one factor of an SFB layer: a row for each sample of the global batch.
  /// `which` is kDeltas (a row has as many elements as the weight has rows) or kActivations (as
  /// many as it has columns). The steps of steps_of_factors() have separate memory.
  virtual std::span<float> factors(uint32_t layer, uint32_t which, uint64_t step) = 0;
};

inline constexpr uint32_t kDeltas = 0, kActivations = 1;

/// The number of steps whose sums may be in flight at once.
inline size_t steps_in_flight(const Plan& plan) { return static_cast<size_t>(plan.staleness + 1); }

/// The number of steps whose factors a worker may hold at once: t - 1 - 2 * staleness to t, where t
/// is the newest step of a peer's factors. The peer has received this worker's factors of step
/// t - 1 - staleness. Before this worker computed those, it had used all factors up to step
/// t - 2 - 2 * staleness.
inline size_t steps_of_factors(const Plan& plan) { return 2 * steps_in_flight(plan); }

}  // namespace poseidon::comm
