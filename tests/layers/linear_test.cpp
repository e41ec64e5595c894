#include <doctest/doctest.h>

#include "tests/support/gradient_check.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

void check(const Json& fields, Shape input, std::optional<float> relu = std::nullopt) {
  CAPTURE(fields.dump());
  Json json = fields;
  json["type"] = "linear";
  check_gradients_everywhere({.json = json, .inputs = {input}, .relu = relu},
                             {.step = 3e-2F, .most_elements = 20, .kinks = relu.has_value()});
}

}  // namespace

TEST_CASE("linear: gradients") {
  check({{"outputs", 5}}, {3, 7});
  check({{"outputs", 32}}, {4, 48});
  check({{"outputs", 10}, {"bias", false}}, {1, 33});
}

TEST_CASE("linear: gradients from an image, read in canonical order") {
  check({{"outputs", 6}}, {2, 5, 3, 4});
  check({{"outputs", 16}}, {2, 16, 2, 2});
}

TEST_CASE("linear: gradients with a fused relu") {
  check({{"outputs", 16}}, {3, 16}, 0.0F);
  check({{"outputs", 6}}, {3, 5, 2, 2}, 0.1F);
}

TEST_CASE("linear: an oversized weight is refused") {
  CHECK_THROWS_WITH(define({{"type", "linear"}, {"name", "fc"}, {"outputs", 1 << 24}}, {{1, 256}}),
                    "[linear 'fc'] a weight of 16777216 x 256 has 2^31 elements or more");
  CHECK_THROWS_WITH(define({{"type", "linear"}, {"name", "fc"}, {"outputs", 1 << 24}}, {{1, 128}}),
                    "[linear 'fc'] a weight of 16777216 x 128 has 2^31 elements or more");
}
