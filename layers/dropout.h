#pragma once

#include "layers/layer_random.h"

namespace poseidon::layers {

/// In training, sets elements to zero with the given probability and scales the others by
/// 1 / (1 - probability); in testing it does nothing. What is dropped is a pure function of seed,
/// step, layer name, the sample's place in the global batch and the element's place in the sample
/// (canonical order): element e is dropped when word e % 4 of Philox block e / 4 of the sample's
/// stream is below threshold(). It depends on no layout, thread, worker or device.
class Dropout final : public Definition {
 public:
  std::string_view type() const override { return "dropout"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;

  uint32_t threshold() const;
  float scale() const { return static_cast<float>(1 / (1 - probability)); }
  /// The random words of one sample, which counts in its batch.
  static constexpr RandomStream stream_of(const StepNumbers& numbers, uint64_t key,
                                          int64_t sample) {
    return random_words(RandomPurpose::kDropout, numbers, key, sample);
  }
  RandomStream stream(const StepNumbers& numbers, int64_t sample) const {
    return stream_of(numbers, random_key(name), sample);
  }

  double probability = 0.5;
};

}  // namespace poseidon::layers
