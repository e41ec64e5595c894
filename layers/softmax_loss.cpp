#include "layers/softmax_loss.h"

#include "core/error.h"
#include "layers/loss.h"

namespace poseidon::layers {

void SoftmaxLoss::describe(Fields& fields) {
  fields.number("weight", weight, at_least(0), "weight of this loss; greatest weight: main head");
  fields.number("label_smoothing", label_smoothing, between(0, 1),
                "part of the target, spread evenly over all classes");
}

Shape SoftmaxLoss::infer(std::span<const Shape> inputs) {
  expect_inputs(inputs, 2);
  const Shape& scores = inputs[0];
  if (scores.rank() < 2 || scores.area() != 1)
    fail(text(
        "expected scores of shape samples x classes, got ", scores.text(),
        scores.rank() == 4 ? " (is a pooling or linear layer missing before this layer?)" : ""));
  samples = scores.samples();
  classes = scores.channels();
  mixed = inputs[1].count() > samples;
  return {samples, std::ssize(scalars())};
}

void SoftmaxLoss::check_labels(const StepContext& step) const {
  check_classes(*this, step, classes);
}

}  // namespace poseidon::layers
