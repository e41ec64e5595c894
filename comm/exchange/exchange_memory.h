#pragma once

#include <cstdint>
#include <span>

#include "comm/plan/plan.h"

namespace poseidon::comm {

/// Where a worker's sums and factors shall lie; fp32, canonical order. The memory belongs to the
/// compute side, which reads it between a layer's arrival and its next contribution.
class ExchangeMemory {
 public:
  virtual ~ExchangeMemory() = default;
  /// The sum of tensor `tensor` of layer `layer`, as the plan counts them; of as many steps as are
  /// in flight. It may be the memory that was contributed: a sum comes back only after the
  /// contribution has arrived.
  virtual std::span<float> sum(uint32_t layer, uint32_t tensor, uint64_t step) = 0;
  /// The stacked factors of an SFB layer, global batch x (rows or columns), of as many steps as
  /// steps_of_factors() says.
  virtual std::span<float> factors(uint32_t layer, uint32_t which, uint64_t step) = 0;
};

inline constexpr uint32_t kDeltas = 0, kActivations = 1;

/// Steps whose sums may be under way at once.
inline size_t steps_in_flight(const Plan& plan) { return static_cast<size_t>(plan.staleness + 1); }

/// Steps of which a worker may have factors at once. A peer that gives those of step t has had this
/// worker's of t - 1 - staleness, which were made when those up to t - 2 - 2 staleness were used.
inline size_t steps_of_factors(const Plan& plan) { return 2 * steps_in_flight(plan); }

}  // namespace poseidon::comm
