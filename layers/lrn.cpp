#include "layers/lrn.h"

#include "core/error.h"

namespace poseidon::layers {

void Lrn::describe(Fields& fields) {
  fields.integer("size", size, between(1, 1 << 12),
                 "window size, odd: channels, or height and width");
  fields.number("alpha", alpha, {}, "factor on m");
  fields.number("beta", beta, at_least(0), "exponent");
  fields.number("k", k, kPositive, "added to alpha m");
  fields.option("region", region, {"across_channels", "within_channel"},
                "window over channels, or over height and width");
}

Shape Lrn::infer(std::span<const Shape> inputs) {
  expect_inputs(inputs, 1);
  input = inputs[0];
  if (input.rank() < 2) fail(text("expected an input with channels, got ", input.text()));
  if (size % 2 == 0) fail(text("\"size\" must be odd, got ", size));
  if (region == LrnRegion::kWithinChannel && input.rank() != 4)
    fail(text("\"within_channel\" expects an input with height and width, got ", input.text()));
  return input;
}

}  // namespace poseidon::layers
