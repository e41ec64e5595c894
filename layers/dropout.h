#pragma once

#include "layers/layer_random.h"

namespace poseidon::layers {

/// Training sets elements to zero with the given probability, and scales the others by 1 / (1 -
/// probability). Testing copies the input. The choice of elements is a pure function of seed, step,
/// layer name, index of the sample in the global batch, and index of the element in the sample.
/// Element indices are in canonical order. Element e is dropped if word e % 4 of Philox block e / 4
/// of the sample's stream is below threshold(). So the choice does not depend on layout, thread,
/// worker or device.
class Dropout final : public Definition {
 public:
  std::string_view type() const override { return "dropout"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;

  uint32_t threshold() const;
  float scale() const { return static_cast<float>(1 / (1 - probability)); }
  /// The random words of a sample. `sample` is its index in the net's batch. `key` is the
  /// random_key() of the layer's name.
  static constexpr RandomStream stream_of(const StepParameters& numbers, uint64_t key,
                                          int64_t sample) {
    return random_words(RandomPurpose::kDropout, numbers, key, sample);
  }
  RandomStream stream(const StepParameters& numbers, int64_t sample) const {
    return stream_of(numbers, random_key(name), sample);
  }

  double probability = 0.5;
};

}  // namespace poseidon::layers
