#pragma once

#include "core/philox.h"
#include "layers/layer.h"

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
  /// The layer in stream_of(): a hash of its name.
  uint64_t key() const;
  /// The random words of one sample; `sample` counts in the global batch.
  static constexpr RandomStream stream_of(uint64_t seed, uint64_t key, int64_t step,
                                          int64_t sample) {
    // An odd factor spreads the step over all bits, so that no two steps of two layers meet.
    const uint64_t stream = key ^ (static_cast<uint64_t>(step) * 0x9E3779B97F4A7C15u);
    return {seed, RandomPurpose::kDropout, stream, static_cast<uint64_t>(sample)};
  }
  /// The same of a sample that is counted in its batch.
  RandomStream stream(const StepNumbers& numbers, int64_t sample) const {
    return stream_of(numbers.seed, key(), numbers.step, numbers.first_sample + sample);
  }

  double probability = 0.5;
};

}  // namespace poseidon::layers
