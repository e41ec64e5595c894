#pragma once

#include "layers/layer.h"

namespace poseidon::layers {

/// The places of the greatest elements of each sample, counted in canonical order, the greatest
/// first; of equal ones that which comes first. What is not a number is less than any number.
/// Output (samples, top_k), or (samples, 2 * top_k) with the elements behind their places, fp32. No
/// gradient goes through it: that of its input is zero.
class Argmax final : public Definition {
 public:
  std::string_view type() const override { return "argmax"; }
  void describe(Fields& fields) override;
  Shape infer(std::span<const Shape> inputs) override;

  int64_t top_k = 1;
  bool values = false;

  Shape input;  ///< set by infer
};

}  // namespace poseidon::layers
