#include <doctest/doctest.h>

#include "tests/support/gradient_check.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

Json crop(int64_t y, int64_t x) { return {{"type", "crop"}, {"name", "crop"}, {"offset", {y, x}}}; }

struct CropCase {
  int64_t y, x;
  Shape whole, part;
};

const std::vector<CropCase>& crop_cases() {
  static const std::vector<CropCase> kCases{{1, 2, {2, 5, 5, 6}, {2, 3, 3, 2}},
                                            {0, 0, {1, 16, 4, 4}, {1, 4, 3, 4}},
                                            {2, 0, {2, 21, 5, 3}, {2, 21, 3, 3}},
                                            {0, 3, {1, 24, 2, 4}, {1, 1, 2, 1}},
                                            {0, 0, {2, 8, 3, 3}, {2, 8, 3, 3}}};
  return kCases;
}

}  // namespace

TEST_CASE("crop: gradients") {
  for (const CropCase& each : crop_cases()) {
    CAPTURE(each.whole.text());
    LayerCase layer{.json = crop(each.y, each.x), .inputs = {each.whole, each.part}};
    check_gradients_everywhere(layer);
    layer.input_needs_gradient = {true, false};
    check_gradients_everywhere(layer);
    layer.input_needs_gradient = {false, true};
    check_gradients_everywhere(layer);
  }
}

TEST_CASE("crop: the output starts at the offset in every layout") {
  for (const CropCase& each : crop_cases()) {
    CAPTURE(each.whole.text());
    LayerCase layer{.json = crop(each.y, each.x), .inputs = {each.whole, each.part}};
    const LayerInputs values = random_inputs(LayerRunner(layer), layer, 1);
    Values expected;
    for (int64_t plane = 0; plane < each.whole.samples() * each.whole.channels(); ++plane)
      for (int64_t y = 0; y < each.part.height(); ++y)
        for (int64_t x = 0; x < each.part.width(); ++x)
          expected.push_back(values.inputs[0][static_cast<size_t>(
              (plane * each.whole.height() + each.y + y) * each.whole.width() + each.x + x)]);
    for (const Layout layout :
         {Layout::kPlain, Layout::kChannelsLast, Layout::kBlocked8, Layout::kBlocked16}) {
      layer.layout = layout;
      CHECK(LayerRunner(layer).forward(values) == expected);
    }
  }
}

TEST_CASE("crop: invalid inputs and offsets are refused") {
  CHECK_THROWS_WITH(define(crop(0, 0), {{1, 2, 3, 3}}), "[crop 'crop'] expected 2 inputs, got 1");
  CHECK_THROWS_WITH(define(crop(0, 0), {{1, 2, 3, 3}, {1, 2}}),
                    "[crop 'crop'] expected inputs with height and width, got 1x2x3x3 and 1x2");
  CHECK_THROWS_WITH(define(crop(1, 0), {{1, 2, 3, 3}, {1, 1, 3, 2}}),
                    "[crop 'crop'] cannot crop 3 rows from offset 1: the first input has only 3 "
                    "(inputs 1x2x3x3 and 1x1x3x2)");
  CHECK_THROWS_WITH(define(crop(0, 2), {{1, 2, 3, 3}, {1, 1, 3, 2}}),
                    "[crop 'crop'] cannot crop 2 columns from offset 2: the first input has only "
                    "3 (inputs 1x2x3x3 and 1x1x3x2)");
}
