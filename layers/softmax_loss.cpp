#include "layers/softmax_loss.h"

#include "core/error.h"

namespace poseidon::layers {

void SoftmaxLoss::describe(Fields& fields) {
  fields.number("weight", weight, at_least(0), "factor on this loss (less than 1: auxiliary head)");
  fields.number("label_smoothing", label_smoothing, between(0, 1),
                "part of the target that is spread over all classes");
}

Shape SoftmaxLoss::infer(std::span<const Shape> inputs) {
  expect_inputs(inputs, 1);
  const Shape& scores = inputs[0];
  if (scores.rank() < 2 || scores.area() != 1)
    fail(text("expected scores of shape samples x classes, got ", scores.text(),
              scores.rank() == 4 ? " (a pooling or linear layer missing before it?)" : ""));
  samples = scores.samples();
  classes = scores.channels();
  return {samples, 2};
}

void SoftmaxLoss::check_labels(const StepContext& step) const {
  for (size_t i = 0; i < step.labels.size(); ++i) {
    const int32_t label = step.labels[i];
    if (label < 0 || label >= classes)
      throw RunError(text("[softmax_loss '", name, "'] sample ",
                          step.numbers->first_sample + static_cast<int64_t>(i), " of step ",
                          step.numbers->step, ": label ", label, " is out of range, expected 0 to ",
                          classes - 1, " (the network tells ", classes, " classes apart)"));
  }
}

}  // namespace poseidon::layers
