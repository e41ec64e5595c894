#include "layers/infogain_loss.h"

#include "core/error.h"
#include "layers/loss.h"

namespace poseidon::layers {

void InfogainLoss::describe(Fields& fields) {
  fields.number("weight", weight, at_least(0), "weight of this loss; greatest weight: main head");
  fields.numbers("matrix", matrix, between(-1e6, 1e6),
                 "H, classes x classes numbers, one row per label", Presence::kRequired);
}

Shape InfogainLoss::infer(std::span<const Shape> inputs) {
  expect_inputs(inputs, 2);
  const Shape& scores = inputs[0];
  if (scores.rank() < 2 || scores.area() != 1)
    fail(text("expected scores of shape samples x classes, got ", scores.text()));
  samples = scores.samples();
  classes = scores.channels();
  if (std::ssize(matrix) != classes * classes)
    fail(text("\"matrix\": expected ", classes, " x ", classes, " numbers for ", classes,
              " classes, got ", matrix.size()));
  rows.assign(matrix.begin(), matrix.end());
  return {samples, 1};
}

void InfogainLoss::check_labels(const StepContext& step) const {
  check_classes(*this, step, classes);
}

}  // namespace poseidon::layers
