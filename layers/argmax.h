#pragma once

#include "layers/layer.h"

namespace poseidon::layers {

/// The indices of the `top_k` greatest elements of each sample, greatest first. Indices count
/// elements in canonical order. If elements are equal, the lower index comes first. NaN is less
/// than any number. The output is (samples, top_k) in fp32. With `values` it is (samples, 2 *
/// top_k): the indices, then the elements. The gradient of the input is zero.
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
