#include "layers/accuracy.h"

#include "core/error.h"
#include "layers/loss.h"

namespace poseidon::layers {

void Accuracy::describe(Fields& fields) {
  fields.integers("top_k", top_k, between(1, 1 << 20),
                  "values of k, up to 8; each reports a scalar such as top5");
}

Shape Accuracy::infer(std::span<const Shape> inputs) {
  expect_inputs(inputs, 2);
  if (inputs[0].rank() < 2 || inputs[0].area() != 1)
    fail(text("expected scores of shape samples x classes, got ", inputs[0].text()));
  if (top_k.empty() || top_k.size() > kMaxRanks)
    fail(text("\"top_k\": expected 1 to ", kMaxRanks, " numbers, got ", top_k.size()));
  samples = inputs[0].samples();
  classes = inputs[0].channels();
  return {samples, std::ssize(top_k)};
}

std::vector<std::string> Accuracy::scalars() const {
  std::vector<std::string> names;
  for (const int64_t k : top_k) names.push_back(text("top", k));
  return names;
}

void Accuracy::check_labels(const StepContext& step) const { check_classes(*this, step, classes); }

}  // namespace poseidon::layers
