#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/plan/plan.h"
#include "comm/wire/transport.h"
#include "core/philox.h"

/// The sums of wire format "int8" on a worker. Each logical shard's gradient is rounded to integers
/// alone. Integers are added exactly, so neither the order of the shards nor their assignment to
/// workers changes the sum.
namespace poseidon::comm {

/// The integer blocks of one tensor (comm/wire/integer_blocks.h).
using IntegerBlocks = std::shared_ptr<const std::vector<std::byte>>;

/// The number of a tensor of the plan, counted over all layers.
uint32_t number_of_tensor(const Plan& plan, uint32_t layer, uint32_t tensor);
/// The random bits that round one shard's gradient of a tensor in a step, and its sum. They are a
/// function of the job's seed, the step, the tensor and the shard.
RandomStream rounding_of_shard(uint64_t seed, uint32_t tensor, uint64_t step, uint32_t shard);
RandomStream rounding_of_sum(uint64_t seed, uint32_t tensor, uint64_t step);

/// Rounds one shard's gradient of a tensor; canonical order.
IntegerBlocks rounded_shard(const Plan& plan, uint64_t seed, uint32_t layer, uint32_t tensor,
                            uint64_t step, uint32_t shard, std::span<const float> gradient);

/// The exact sum of several shards' gradients, for a run of elements of a tensor. The run consists
/// of slices of kSliceElements elements.
class IntegerSum {
 public:
  /// The run has `elements` elements from element `first` of its tensor on, a multiple of
  /// kBlockElements.
  IntegerSum(uint64_t first, uint64_t elements);

  /// Adds the run's elements of a tensor.
  void add(const IntegerBlocks& tensor);
  /// The number of shards in the sum.
  uint32_t shards() const { return shards_; }
  /// Removes and returns the sum of a slice. Call it for each slice; then the sum is empty again.
  Payload take(uint64_t slice);
  /// Removes the sum of a whole tensor. Writes its rounded values, as all workers receive them.
  void take_rounded(const RandomStream& random, std::span<float> values);

 private:
  uint64_t elements_of(uint64_t slice) const;

  uint64_t first_, elements_;
  uint32_t shards_ = 0;
  std::vector<Payload> slices_;
};

}  // namespace poseidon::comm
