#include <doctest/doctest.h>

#include <array>

#include "tests/support/gradient_check.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

Json slice(int64_t begin, int64_t end) {
  return {{"type", "slice"}, {"begin", begin}, {"end", end}};
}

constexpr std::array kLayouts{Layout::kPlain, Layout::kChannelsLast, Layout::kBlocked8,
                              Layout::kBlocked16};

}  // namespace

TEST_CASE("slice: gradients") {
  for (const Shape& shape : {Shape{2, 40, 2, 3}, Shape{2, 40}})
    for (const auto& [begin, end] :
         {std::pair{0, 40}, {0, 16}, {16, 40}, {8, 24}, {32, 0}, {3, 4}, {16, 21}})
      check_gradients_everywhere({.json = slice(begin, end), .inputs = {shape}},
                                 {.most_elements = 16});
}

TEST_CASE("slice: the output holds the selected channels in every layout") {
  for (const Shape& shape : {Shape{3, 40, 2, 3}, Shape{2, 5, 4, 1}, Shape{3, 7}})
    for (const auto& range : {std::pair{0, 0}, {0, 2}, {1, 5}, {3, 4}, {2, 0}}) {
      const int begin = range.first, end = range.second;
      CAPTURE(shape.text());
      CAPTURE(begin);
      CAPTURE(end);
      LayerCase layer{.json = slice(begin, end), .inputs = {shape}};
      const LayerInputs values = random_inputs(LayerRunner(layer), layer, 1);
      const int64_t last = end == 0 ? shape.channels() : end;
      Values expected;
      for (int64_t n = 0; n < shape.samples(); ++n) {
        const auto sample = values.inputs[0].begin() + n * shape.sample_count();
        expected.insert(expected.end(), sample + begin * shape.area(),
                        sample + last * shape.area());
      }
      for (const Layout layout : kLayouts) {
        layer.layout = layout;
        CHECK(LayerRunner(layer).forward(values) == expected);
      }
    }
}

TEST_CASE("slice: channels outside of the slice have a zero gradient") {
  for (const Layout layout : kLayouts) {
    LayerCase layer{.json = slice(16, 32), .inputs = {{1, 40, 1, 2}}, .layout = layout};
    LayerRunner runner(layer);
    const Values gradient = runner.run(random_inputs(runner, layer, 2)).input_gradients[0];
    for (size_t i = 0; i < gradient.size(); ++i) CHECK((gradient[i] != 0) == (i >= 32 && i < 64));
  }
}

TEST_CASE("slice: invalid inputs and ranges are refused") {
  CHECK_THROWS_WITH(define(slice(0, 1), {{1, 2}, {1, 2}}),
                    "[slice 'layer'] expected 1 input, got 2");
  CHECK_THROWS_WITH(define(slice(0, 1), {{7}}),
                    "[slice 'layer'] expected an input with channels, got 7");
  CHECK_THROWS_WITH(
      define(slice(2, 9), {{4, 8, 3, 3}}),
      "[slice 'layer'] channels 2 to 9 are not a range of the input's 8 channels (4x8x3x3)");
  CHECK_THROWS_WITH(
      define(slice(8, 0), {{4, 8}}),
      "[slice 'layer'] channels 8 to 8 are not a range of the input's 8 channels (4x8)");
}
