#pragma once

#include <string_view>

#include "core/philox.h"
#include "layers/layer.h"

/// The random words of layers that choose at random in training: a pure function of seed, what they
/// are for, layer name, step and the sample's place in the global batch. They depend on no layout,
/// thread, worker or device.
namespace poseidon::layers {

/// The layer in random_words(): a hash of its name.
uint64_t random_key(std::string_view name);

/// Those of one sample, which counts in its batch.
constexpr RandomStream random_words(RandomPurpose purpose, const StepNumbers& numbers, uint64_t key,
                                    int64_t sample) {
  // An odd factor spreads the step over all bits, so that no two steps of two layers meet.
  const uint64_t stream = key ^ (static_cast<uint64_t>(numbers.step) * 0x9E3779B97F4A7C15u);
  return {numbers.seed, purpose, stream, static_cast<uint64_t>(numbers.first_sample + sample)};
}

}  // namespace poseidon::layers
