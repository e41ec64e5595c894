#include <doctest/doctest.h>

#include "tests/support/gradient_check.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

Json reshape(const std::vector<int64_t>& shape) {
  return {{"type", "reshape"}, {"name", "view"}, {"shape", shape}};
}

Shape output_of(const std::vector<int64_t>& shape, Shape input) {
  Shape output;
  define(reshape(shape), {input}, &output);
  return output;
}

}  // namespace

TEST_CASE("reshape: elements keep their canonical order") {
  for (const auto& each : {std::pair<std::vector<int64_t>, Shape>{{-1}, {2, 5, 3, 4}},
                           {{4, 5, 3}, {2, 5, 3, 4}},
                           {{0, 2, -1}, {2, 17, 4, 3}},
                           {{16, 2, 2}, {3, 64}},
                           {{0, 1, 1}, {3, 20}}}) {
    const Shape& input = each.second;
    CAPTURE(input.text());
    const LayerCase layer{.json = reshape(each.first), .inputs = {input}};
    check_gradients_everywhere(layer);
    for (const Layout layout :
         {Layout::kPlain, Layout::kChannelsLast, Layout::kBlocked8, Layout::kBlocked16}) {
      LayerCase in_layout = layer;
      in_layout.layout = layout;
      const LayerInputs values = random_inputs(LayerRunner(in_layout), in_layout, 1);
      const LayerResults got = LayerRunner(in_layout).run(values);
      CHECK(got.output == values.inputs[0]);
      CHECK(got.input_gradients[0] == values.output_gradients[0]);
    }
  }
}

TEST_CASE("reshape: 0 copies an extent of the input, and -1 is inferred") {
  CHECK(output_of({0, -1, 1}, {2, 6, 3, 4}) == Shape{2, 6, 12, 1});
  CHECK(output_of({-1, 0, 2}, {2, 6, 3, 4}) == Shape{2, 12, 3, 2});
  CHECK(output_of({24}, {2, 6, 2, 2}) == Shape{2, 24});
  CHECK(output_of({2, 3, 4}, {7, 24}) == Shape{7, 2, 3, 4});
}

TEST_CASE("reshape: invalid shapes are refused") {
  const auto refuse = [](const std::vector<int64_t>& shape, Shape input) {
    define(reshape(shape), {input});
  };
  CHECK_THROWS_WITH(refuse({2, 3}, {1, 6}),
                    "[reshape 'view'] \"shape\": expected [features] or [channels, height, width], "
                    "got 2 numbers");
  CHECK_THROWS_WITH(refuse({-1, -1, 2}, {1, 6}),
                    "[reshape 'view'] \"shape\": expected -1 at most once");
  CHECK_THROWS_WITH(
      refuse({2, 0, 3}, {1, 6}),
      "[reshape 'view'] \"shape\": number 2 is 0 (copies the input's extent), but the "
      "input has shape 1x6");
  CHECK_THROWS_WITH(refuse({4, -1, 1}, {1, 6}),
                    "[reshape 'view'] \"shape\": the product of the other numbers, 4, does not "
                    "divide the 6 elements of a sample (input 1x6)");
  CHECK_THROWS_WITH(refuse({7}, {2, 6}),
                    "[reshape 'view'] \"shape\": an output of shape 2x7 has 7 elements per sample, "
                    "but the input has 6 (2x6)");
  CHECK_THROWS_WITH(refuse({1 << 30, 1 << 30, 1 << 30}, {1, 6}),
                    "[reshape 'view'] \"shape\": the product of the numbers exceeds 2^63");
}
