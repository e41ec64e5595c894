#include "layers/loss.h"

#include "core/error.h"

namespace poseidon::layers {

void ElementLoss::describe(Fields& fields) {
  fields.number("weight", weight, at_least(0), "weight of this loss; greatest weight: main head");
}

Shape ElementLoss::infer(std::span<const Shape> inputs) {
  expect_inputs(inputs, 1 + (has_targets() ? 1 : 0) + (reads_labels() ? 1 : 0));
  const Shape& values = inputs[0];
  if (has_targets() && (inputs[1].samples() != values.samples() ||
                        inputs[1].sample_count() != values.sample_count()))
    fail(text("values and targets must have equal numbers of samples and elements, got ",
              values.text(), " and ", inputs[1].text()));
  if (!has_targets() && (values.rank() < 2 || values.area() != 1))
    fail(text("expected scores of shape samples x classes, got ", values.text()));
  samples = values.samples();
  elements = values.sample_count();
  return {samples, 1};
}

void ElementLoss::check_labels(const StepContext& step) const {
  if (!has_targets()) check_classes(*this, step, elements);
}

void check_classes(const Definition& definition, const StepContext& step, int64_t classes) {
  const auto check_class = [&](size_t i, int32_t label) {
    if (label < 0 || label >= classes)
      throw RunError(text("[", definition.type(), " '", definition.name, "'] sample ",
                          step.numbers->first_sample + static_cast<int64_t>(i), " of step ",
                          step.numbers->step, ": label ", label, " is out of range, expected 0 to ",
                          classes - 1, " (the network has ", classes, " classes)"));
  };
  for (size_t i = 0; i < step.labels.size(); ++i) check_class(i, step.labels[i]);
  for (size_t i = 0; i < step.mixup_labels.size() / 2; ++i)
    check_class(i, static_cast<int32_t>(step.mixup_labels[i]));
}

void ContrastiveLoss::describe(Fields& fields) {
  ElementLoss::describe(fields);
  fields.number("margin", margin, kPositive,
                "distance beyond which pairs of different classes have no loss");
  fields.boolean("legacy", legacy, "Caffe's legacy form: max(0, margin - d^2) / 2");
}

void HingeLoss::describe(Fields& fields) {
  ElementLoss::describe(fields);
  fields.option("norm", norm, {"l1", "l2"}, "l2: sum of the squares of these terms");
}

}  // namespace poseidon::layers
