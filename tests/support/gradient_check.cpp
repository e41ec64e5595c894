#include "tests/support/gradient_check.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "core/bf16.h"
#include "core/philox.h"
#include "tests/support/sanitizers.h"

namespace poseidon::test {

namespace {

/// Limit on checked elements per tensor. Each element needs two forward passes, which repeat the
/// same memory accesses.
constexpr size_t kMostElements = kIsSanitized ? 12 : std::numeric_limits<size_t>::max();

/// The scalar whose gradient is checked.
double functional(const LayerRunner& runner, const LayerCase& layer_case, const Values& output,
                  const LayerInputs& values) {
  double sum = 0;
  if (runner.definition().is_loss()) {
    const size_t columns = runner.definition().scalars().size();
    for (size_t n = 0; n < output.size(); n += columns) sum += static_cast<double>(output[n]);
    return sum * runner.definition().loss_weight() *
           static_cast<double>(layer_case.step.loss_scale);
  }
  for (const Values& gradient : values.output_gradients)
    for (size_t i = 0; i < output.size(); ++i)
      sum += static_cast<double>(gradient[i]) * static_cast<double>(output[i]);
  return sum;
}

class Checker {
 public:
  Checker(const LayerCase& layer_case, LayerInputs values, const GradientTolerance& tolerance)
      : case_(layer_case), runner_(layer_case), values_(std::move(values)), tolerance_(tolerance) {}

  void run() {
    const LayerResults results = runner_.run(values_);
    here_ = functional(runner_, case_, results.output, values_);
    for (size_t i = 0; i < values_.inputs.size(); ++i)
      check_tensor(values_.inputs[i], results.input_gradients[i], "input", i);
    for (size_t i = 0; i < values_.parameters.size(); ++i)
      check_tensor(values_.parameters[i], results.parameter_gradients[i], "parameter", i);
  }

 private:
  void check_tensor(Values& tensor, const Values& gradient, const char* kind, size_t index) {
    if (gradient.empty()) return;
    double scale = 1;
    for (const float g : gradient) scale = std::max(scale, std::abs(static_cast<double>(g)));
    const size_t checked = std::min({tensor.size(), tolerance_.most_elements, kMostElements});
    RandomStream random(11, RandomPurpose::kGeneration, index, 0);
    size_t kinks = 0, wrong = 0;
    for (size_t k = 0; k < checked; ++k) {
      const size_t i =
          checked == tensor.size() ? k : random.next_below(static_cast<uint32_t>(tensor.size()));
      const auto got = static_cast<double>(gradient[i]);
      const Differences numeric = differences(tensor[i]);
      const double allowed = tolerance_.relative * scale;
      if (std::abs(got - numeric.central) <= allowed) continue;
      if (tolerance_.kinks && std::abs(numeric.forward - numeric.backward) > 1.9 * allowed) {
        ++kinks;
      } else if (wrong++ < 3) {
        FAIL_CHECK(kind << " " << index << ", element " << i << " of " << tensor.size()
                        << ": gradient is " << got << ", differences say " << numeric.central);
      }
    }
    CHECK_MESSAGE(3 * kinks <= checked, kind << " " << index << ": too many kinks to check");
  }

  struct Differences {
    double central, forward, backward;
  };

  Differences differences(float& element) {
    const float value = element;
    element = value + tolerance_.step;
    const double above = evaluate(), up = static_cast<double>(element) - value;
    element = value - tolerance_.step;
    const double below = evaluate(), down = value - static_cast<double>(element);
    element = value;
    return {(above - below) / (up + down), (above - here_) / up, (here_ - below) / down};
  }

  double evaluate() { return functional(runner_, case_, runner_.forward(values_), values_); }

  LayerCase case_;
  LayerRunner runner_;
  LayerInputs values_;
  GradientTolerance tolerance_;
  double here_ = 0;
};

}  // namespace

void check_gradients(const LayerCase& layer_case, const LayerInputs& values,
                     const GradientTolerance& tolerance) {
  Checker(layer_case, values, tolerance).run();
}

namespace {

void check_same(const LayerResults& got, const LayerResults& expected, double relative = 1e-5) {
  check_close(got.output, expected.output, relative, "output");
  for (size_t i = 0; i < expected.input_gradients.size(); ++i)
    check_close(got.input_gradients[i], expected.input_gradients[i], relative, "input gradient");
  for (size_t i = 0; i < expected.parameter_gradients.size(); ++i)
    check_close(got.parameter_gradients[i], expected.parameter_gradients[i], relative,
                "parameter gradient");
}

}  // namespace

void check_bf16(LayerCase layer_case, LayerInputs values) {
  for (std::vector<Values>* tensors :
       {&values.inputs, &values.parameters, &values.output_gradients})
    for (Values& tensor : *tensors)
      for (float& value : tensor) value = Bf16(value);
  layer_case.type = DataType::kFp32;
  const LayerResults expected = LayerRunner(layer_case).run(values);
  layer_case.type = DataType::kBf16;
  check_same(LayerRunner(layer_case).run(values), expected, 1e-2);
}

namespace {

/// For a layer whose gradients in training were already checked. If the output in kTest is the
/// same, the gradients must be the same. Otherwise they are compared with differences.
void check_in_testing(LayerCase layer_case, const LayerInputs& values, const LayerResults& training,
                      const GradientTolerance& tolerance) {
  layer_case.step.phase = layers::Phase::kTest;
  const LayerResults results = LayerRunner(layer_case).run(values);
  if (results.output != training.output) return check_gradients(layer_case, values, tolerance);
  CHECK(results.input_gradients == training.input_gradients);
  CHECK(results.parameter_gradients == training.parameter_gradients);
}

}  // namespace

void check_gradients_everywhere(LayerCase layer_case, const GradientTolerance& tolerance) {
  size_t contributions = 0;
  for (const Layout layout :
       {Layout::kPlain, Layout::kChannelsLast, Layout::kBlocked8, Layout::kBlocked16}) {
    contributions = contributions % 3 + 1;
    CAPTURE(std::string(layout_name(layout)));
    CAPTURE(contributions);
    layer_case.layout = layout;
    layer_case.threads = 1;
    layer_case.in_place = false;
    LayerRunner runner(layer_case);
    const LayerInputs values = random_inputs(runner, layer_case, contributions);
    check_gradients(layer_case, values, tolerance);
    const LayerResults results = runner.run(values);
    if (tolerance.in_testing) check_in_testing(layer_case, values, results, tolerance);
    layer_case.in_place = true;
    check_same(LayerRunner(layer_case).run(values), results);
    layer_case.threads = 2;
    check_same(LayerRunner(layer_case).run(values), results);
    check_bf16(layer_case, values);
  }
}

void check_close(const Values& got, const Values& expected, double relative, const char* what) {
  CAPTURE(std::string(what));
  REQUIRE(got.size() == expected.size());
  double scale = 1, worst = 0;
  size_t where = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    scale = std::max(scale, std::abs(static_cast<double>(expected[i])));
    const double difference =
        std::abs(static_cast<double>(got[i]) - static_cast<double>(expected[i]));
    if (difference > worst || std::isnan(difference)) {
      worst = difference;
      where = i;
      if (std::isnan(difference)) break;
    }
  }
  CHECK_MESSAGE(worst <= relative * scale,
                "element " << where << " is " << got[where] << ", expected " << expected[where]);
}

}  // namespace poseidon::test
