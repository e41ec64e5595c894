#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/shape.h"
#include "data/image.h"
#include "data/transform.h"

namespace poseidon::data {

/// The second sample of mixup or CutMix, and its weight.
struct MixDecision {
  int64_t second_sample = 0;  ///< index of the second sample
  double lambda = 0;          ///< weight of the second sample, 0 to 1
  /// CutMix: the region that is copied from the second sample. nullopt: mixup, in which each value
  /// is a weighted mean.
  std::optional<Box> part = {};
};

/// Applies mixup and CutMix to the samples of a dataset. The random numbers are a function of seed,
/// epoch and sample. Thread-safe.
class Mixer {
 public:
  /// `output`: shape of prepared samples, channels x height x width. `samples`: number of samples
  /// in the dataset.
  Mixer(const MixConfig& config, const Shape& output, uint64_t seed, int64_t samples)
      : config_(config), output_(output), seed_(seed), samples_(samples) {}

  /// Chooses the second sample and its weight. Returns nullopt if the sample is not mixed.
  std::optional<MixDecision> draw(SampleKey key) const;
  /// Mixes `second_sample`, the values of the second sample, into `values`.
  void mix(const MixDecision& decision, std::span<const float> second_sample,
           std::span<float> values) const;

 private:
  MixConfig config_;
  Shape output_;
  uint64_t seed_;
  int64_t samples_;
};

}  // namespace poseidon::data
