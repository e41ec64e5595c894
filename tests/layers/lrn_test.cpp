#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/support/gradient_check.h"

using namespace poseidon;
using namespace poseidon::test;

TEST_CASE("lrn across channels: gradients for every size and exponent") {
  for (int64_t size : {1, 3, 5, 7})
    for (double beta : {0.75, 0.6}) {
      CAPTURE(size);
      CAPTURE(beta);
      const Json json{{"type", "lrn"}, {"size", size}, {"alpha", 2}, {"beta", beta}, {"k", 1.5}};
      check_gradients_everywhere({.json = json, .inputs = {{2, 21, 3, 2}}}, {.most_elements = 10});
    }
}

TEST_CASE("lrn across channels: gradients for other shapes") {
  const Json json{{"type", "lrn"}, {"alpha", 2}};
  check_gradients_everywhere({.json = json, .inputs = {{2, 32, 5, 7}}}, {.most_elements = 20});
  check_gradients_everywhere({.json = json, .inputs = {{3, 9}}});
  check_gradients_everywhere({.json = json, .inputs = {{1, 2, 3, 3}}});
}

TEST_CASE("lrn within a channel: gradients") {
  for (int64_t size : {3, 5})
    for (double beta : {0.75, 1.0}) {
      const Json json{{"type", "lrn"}, {"size", size}, {"alpha", 2},
                      {"beta", beta},  {"k", 1},       {"region", "within_channel"}};
      check_gradients_everywhere({.json = json, .inputs = {{2, 5, 4, 6}}}, {.most_elements = 20});
      check_gradients_everywhere({.json = json, .inputs = {{1, 2, 2, 1}}}, {.most_elements = 20});
    }
}

TEST_CASE("lrn: invalid sizes and shapes are refused") {
  CHECK_THROWS_WITH(define({{"type", "lrn"}, {"name", "n"}, {"size", 4}}, {{1, 8, 2, 2}}),
                    "[lrn 'n'] \"size\" must be odd, got 4");
  CHECK_THROWS_WITH(
      define({{"type", "lrn"}, {"name", "n"}, {"region", "within_channel"}}, {{1, 8}}),
      "[lrn 'n'] \"within_channel\" expects an input with height and width, got 1x8");
}

TEST_CASE("lrn: NaN spreads within its window, and no further") {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  for (double beta : {0.75, 0.6})
    for (const char* region : {"across_channels", "within_channel"}) {
      CAPTURE(beta);
      CAPTURE(region);
      const bool across = std::string(region) == "across_channels";
      const Json json{{"type", "lrn"}, {"size", 3}, {"beta", beta}, {"region", region}};
      LayerRunner runner(
          {.json = json, .inputs = {across ? Shape{1, 7, 1, 1} : Shape{1, 1, 1, 7}}});
      const LayerResults got =
          runner.run({.inputs = {{1, 2, 3, kNaN, 5, 6, 7}}, .output_gradients = {Values(7, 1)}});
      for (size_t i = 0; i < 7; ++i) {
        CAPTURE(i);
        CHECK(std::isnan(got.output[i]) == (i >= 2 && i <= 4));
        CHECK(std::isnan(got.input_gradients[0][i]) == (i >= 1 && i <= 5));
      }
    }
}
