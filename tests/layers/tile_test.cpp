#include <doctest/doctest.h>

#include "tests/support/gradient_check.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

Json tile(int64_t tiles) { return {{"type", "tile"}, {"tiles", tiles}}; }

}  // namespace

TEST_CASE("tile: gradients") {
  for (const Shape& shape :
       {Shape{2, 5, 3, 4}, Shape{2, 16, 2, 3}, Shape{1, 24, 3, 3}, Shape{3, 7}, Shape{2, 8}})
    for (const int64_t tiles : {1, 2, 3}) {
      CAPTURE(shape.text());
      CAPTURE(tiles);
      check_gradients_everywhere({.json = tile(tiles), .inputs = {shape}});
    }
}

TEST_CASE("tile: the output repeats the input along the channels in every layout") {
  for (const Shape& shape :
       {Shape{2, 5, 3, 4}, Shape{3, 32, 2, 3}, Shape{2, 8, 3, 3}, Shape{3, 7}}) {
    CAPTURE(shape.text());
    constexpr int64_t kTiles = 4;
    LayerCase layer{.json = tile(kTiles), .inputs = {shape}};
    const LayerInputs values = random_inputs(LayerRunner(layer), layer, 1);
    const auto length = static_cast<ptrdiff_t>(shape.sample_count());
    Values expected;
    for (int64_t n = 0; n < shape.samples(); ++n)
      for (int64_t i = 0; i < kTiles; ++i) {
        const auto sample = values.inputs[0].begin() + n * length;
        expected.insert(expected.end(), sample, sample + length);
      }
    for (const Layout layout :
         {Layout::kPlain, Layout::kChannelsLast, Layout::kBlocked8, Layout::kBlocked16}) {
      layer.layout = layout;
      CHECK(LayerRunner(layer).forward(values) == expected);
    }
  }
}

TEST_CASE("tile: invalid inputs are refused") {
  CHECK_THROWS_WITH(define(tile(2), {{1, 2}, {1, 2}}), "[tile 'layer'] expected 1 input, got 2");
  CHECK_THROWS_WITH(define(tile(2), {{7}}),
                    "[tile 'layer'] expected an input with channels, got 7");
}
