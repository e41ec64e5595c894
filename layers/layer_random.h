#pragma once

#include <string_view>

#include "core/philox.h"
#include "layers/layer.h"

/// Random words for layers that make random choices in training. The words are a pure function of
/// seed, purpose, layer name, step and the sample's index in the global batch. The words do not
/// depend on layout, thread, worker or device.
namespace poseidon::layers {

/// The key of a layer in random_words(): a hash of its name.
uint64_t random_key(std::string_view name);

/// The random words of a sample. `sample` is its index in the batch. `key` is the random_key() of
/// the layer's name.
constexpr RandomStream random_words(RandomPurpose purpose, const StepParameters& numbers,
                                    uint64_t key, int64_t sample) {
  // An odd factor spreads the step over all bits. Otherwise small steps would change only low bits,
  // and two layers with similar keys could share a stream in different steps.
  const uint64_t stream = key ^ (static_cast<uint64_t>(numbers.step) * 0x9E3779B97F4A7C15u);
  return {numbers.seed, purpose, stream, static_cast<uint64_t>(numbers.first_sample + sample)};
}

}  // namespace poseidon::layers
