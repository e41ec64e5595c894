#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/gradient_check.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

Json reduction(const std::string& operation, double coefficient = 1) {
  return {{"type", "reduction"}, {"operation", operation}, {"coefficient", coefficient}};
}

double reduce(const std::string& operation, const float* from, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto x = static_cast<double>(from[i]);
    sum += operation == "asum" ? std::abs(x) : operation == "sumsq" ? x * x : x;
  }
  return operation == "mean" ? sum / static_cast<double>(count) : sum;
}

}  // namespace

TEST_CASE("reduction: gradients") {
  for (const char* operation : {"sum", "asum", "sumsq", "mean"})
    for (const Shape& shape :
         {Shape{2, 5, 3, 4}, Shape{1, 21, 5, 3}, Shape{3, 16, 2, 2}, Shape{3, 7}, Shape{2, 1}}) {
      CAPTURE(std::string(operation));
      CAPTURE(shape.text());
      check_gradients_everywhere({.json = reduction(operation, -1.5), .inputs = {shape}},
                                 {.step = 4e-3F, .relative = 6e-3, .kinks = operation[0] == 'a'});
    }
}

TEST_CASE("reduction: each sample yields one number in every layout, for any thread count") {
  for (const std::string operation : {"sum", "asum", "sumsq", "mean"})
    for (const Shape& shape : {Shape{3, 21, 9, 7}, Shape{2, 64, 8, 8}, Shape{5, 1000}}) {
      CAPTURE(operation);
      LayerCase layer{.json = reduction(operation, 0.5), .inputs = {shape}};
      const LayerInputs values = random_inputs(LayerRunner(layer), layer, 1);
      Values expected;
      for (int64_t n = 0; n < shape.samples(); ++n)
        expected.push_back(static_cast<float>(
            0.5 * reduce(operation, values.inputs[0].data() + n * shape.sample_count(),
                         shape.sample_count())));
      for (const Layout layout :
           {Layout::kPlain, Layout::kChannelsLast, Layout::kBlocked8, Layout::kBlocked16}) {
        layer.layout = layout;
        layer.threads = 1;
        const Values one = LayerRunner(layer).forward(values);
        check_close(one, expected, 1e-6, "reduction");
        layer.threads = 3;
        CHECK(LayerRunner(layer).forward(values) == one);
      }
    }
}

TEST_CASE("reduction: the derivative of an absolute value at 0 is 0") {
  const LayerCase layer{.json = reduction("asum"), .inputs = {{1, 3}}};
  const LayerResults got =
      LayerRunner(layer).run({.inputs = {{0, -2, 3}}, .output_gradients = {{4}}});
  CHECK(got.output == Values{5});
  CHECK(got.input_gradients[0] == Values{0, -4, 4});
}

TEST_CASE("reduction: invalid inputs are refused") {
  CHECK_THROWS_WITH(define(reduction("sum"), {{1, 2}, {1, 2}}),
                    "[reduction 'layer'] expected 1 input, got 2");
}
