#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/shape.h"
#include "data/image.h"
#include "data/transform.h"

namespace poseidon::data {

/// What a sample is mixed with, and how.
struct Mixture {
  int64_t partner = 0;  ///< index of the other sample
  double share = 0;     ///< of the other sample in the mixture, 0 to 1
  /// The part of the image that is the other's (cutmix); none: every value is a mean (mixup).
  std::optional<Box> part = {};
};

/// Mixes samples with others of a dataset, by random numbers that are a function of seed, epoch and
/// sample. Thread-safe.
class Mixer {
 public:
  /// For prepared samples of shape `output`, channels x height x width, of a dataset of `samples`.
  Mixer(const MixConfig& config, const Shape& output, uint64_t seed, int64_t samples)
      : config_(config), output_(output), seed_(seed), samples_(samples) {}

  /// None where the sample stays as it is.
  std::optional<Mixture> draw(SampleKey key) const;
  /// Writes the mixture of `values` and its partner's over `values`.
  void mix(const Mixture& mixture, std::span<const float> partner, std::span<float> values) const;

 private:
  MixConfig config_;
  Shape output_;
  uint64_t seed_;
  int64_t samples_;
};

}  // namespace poseidon::data
