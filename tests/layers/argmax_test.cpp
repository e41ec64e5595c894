#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/gradient_check.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

Json argmax(int64_t top_k, bool values) {
  return {{"type", "argmax"}, {"name", "best"}, {"top_k", top_k}, {"values", values}};
}

/// Reference: sorts all positions of each sample.
Values find(const Shape& shape, const Values& input, size_t top_k, bool values) {
  Values out;
  const auto count = static_cast<size_t>(shape.sample_count());
  for (size_t n = 0; n < static_cast<size_t>(shape.samples()); ++n) {
    std::vector<std::pair<double, size_t>> sorted;
    for (size_t i = 0; i < count; ++i) {
      const double x = input[n * count + i];
      sorted.emplace_back(std::isnan(x) ? std::numeric_limits<double>::infinity() : -x, i);
    }
    std::ranges::stable_sort(sorted, {}, &std::pair<double, size_t>::first);
    for (size_t k = 0; k < top_k; ++k) out.push_back(static_cast<float>(sorted[k].second));
    for (size_t k = 0; k < top_k && values; ++k) out.push_back(input[n * count + sorted[k].second]);
  }
  return out;
}

}  // namespace

TEST_CASE("argmax: indices are in canonical order, largest value first, in every layout") {
  for (const Shape& shape : {Shape{3, 10}, Shape{2, 1000}, Shape{2, 21, 5, 3}, Shape{1, 16, 9, 7}})
    for (const int64_t top_k : {1, 2, 7})
      for (const bool with_values : {false, true})
        for (const bool equal_ones : {false, true}) {
          CAPTURE(shape.text());
          CAPTURE(top_k);
          LayerCase layer{.json = argmax(top_k, with_values), .inputs = {shape}};
          LayerInputs values = random_inputs(LayerRunner(layer), layer, 1);
          if (equal_ones)
            for (float& value : values.inputs[0]) value = std::round(2 * value);  // includes -0
          const Values expected =
              find(shape, values.inputs[0], static_cast<size_t>(top_k), with_values);
          for (const Layout layout :
               {Layout::kPlain, Layout::kChannelsLast, Layout::kBlocked8, Layout::kBlocked16})
            for (const DataType type : {DataType::kFp32, DataType::kBf16}) {
              layer.layout = layout;
              layer.type = type;
              layer.threads = layout == Layout::kPlain ? 1 : 2;
              const LayerResults got = LayerRunner(layer).run(values);
              CHECK(got.output == expected);
              CHECK(got.input_gradients[0] == Values(values.inputs[0].size()));
            }
        }
}

TEST_CASE("argmax: NaN ranks below every number, and several NaN keep their order") {
  const float none = std::nanf(""), least = -std::numeric_limits<float>::infinity();
  const LayerCase layer{.json = argmax(5, false), .inputs = {{1, 5}}};
  CHECK(LayerRunner(layer).forward({.inputs = {{none, least, 3, none, -1}}}) ==
        Values{2, 4, 1, 0, 3});
}

TEST_CASE("argmax: a too large top_k and oversized samples are refused") {
  CHECK_THROWS_WITH(define(argmax(7, false), {{2, 6}}),
                    "[argmax 'best'] \"top_k\": 7, but a sample has only 6 elements (2x6)");
  CHECK_THROWS_WITH(define(argmax(1, false), {{1, 2, 4096, 4096}}),
                    "[argmax 'best'] a sample has 33554432 elements; expected at most 16777216, "
                    "because indices are fp32");
}
