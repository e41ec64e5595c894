#include "layers/pooling.h"

#include <doctest/doctest.h>

#include "tests/support/gradient_check.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

Json pooling(Json fields) {
  fields["type"] = "pooling";
  fields["name"] = "pool";
  return fields;
}

void check(const Json& fields, Shape input) {
  for (const char* method : {"max", "average"}) {
    CAPTURE(fields.dump());
    CAPTURE(std::string(method));
    Json json = pooling(fields);
    json["method"] = method;
    check_gradients_everywhere(
        {.json = json, .inputs = {input}},
        {.step = 4e-3F, .relative = 4e-3, .most_elements = 16, .kinks = method[0] == 'm'});
  }
}

Shape output_of(Json fields, Shape input) {
  auto definition = define(pooling(std::move(fields)), {input});
  return static_cast<const layers::Pooling&>(*definition).output;
}

Values run(Json fields, Shape input, const Values& values) {
  LayerRunner runner({.json = pooling(std::move(fields)), .inputs = {input}});
  return runner.forward({.inputs = {values}});
}

}  // namespace

TEST_CASE("pooling: gradients") {
  check({{"kernel", 2}, {"stride", 2}}, {2, 5, 4, 6});
  check({{"kernel", 3}, {"stride", 1}}, {1, 16, 5, 5});
  check({{"kernel", {3, 2}}, {"stride", {2, 1}}}, {1, 21, 5, 4});
}

TEST_CASE("pooling: gradients with padding") {
  check({{"kernel", 3}, {"stride", 2}, {"padding", 1}}, {1, 5, 6, 5});
  check({{"kernel", {3, 2}}, {"stride", 1}, {"padding", {1, 0}}, {"rounding", "floor"}},
        {1, 16, 4, 4});
}

TEST_CASE("pooling: gradients with windows that hang over the edge") {
  check({{"kernel", 3}, {"stride", 2}}, {1, 5, 6, 6});
  check({{"kernel", 3}, {"stride", 2}, {"padding", 1}}, {1, 16, 6, 6});
  check({{"kernel", 3}, {"stride", 2}, {"rounding", "floor"}}, {1, 16, 6, 6});
}

TEST_CASE("pooling: gradients over the whole input") { check({{"global", true}}, {2, 21, 3, 4}); }

TEST_CASE("pooling: output extents with both roundings") {
  CHECK(output_of({{"kernel", 3}, {"stride", 2}}, {1, 2, 32, 32}) == Shape{1, 2, 16, 16});
  CHECK(output_of({{"kernel", 3}, {"stride", 2}, {"rounding", "floor"}}, {1, 2, 32, 32}) ==
        Shape{1, 2, 15, 15});
  // The last window must begin inside the input or its left padding.
  CHECK(output_of({{"kernel", 2}, {"stride", 2}, {"padding", 1}}, {1, 2, 3, 3}) ==
        Shape{1, 2, 2, 2});
  CHECK(output_of({{"kernel", 2}, {"stride", 3}}, {1, 1, 3, 3}) == Shape{1, 1, 1, 1});
  CHECK(output_of({{"global", true}}, {1, 2, 7, 5}) == Shape{1, 2, 1, 1});
}

TEST_CASE("pooling: the mean divides by the window inside the padded input") {
  const Values ones(9, 1);
  // 3x3 in a frame of one: the corner window holds 4 of 9 cells.
  const Values padded = run({{"method", "average"}, {"kernel", 3}, {"stride", 2}, {"padding", 1}},
                            {1, 1, 3, 3}, ones);
  check_close(padded, {4.0F / 9, 4.0F / 9, 4.0F / 9, 4.0F / 9}, 1e-6, "padding counts");
  // 4x4, kernel 3, stride 2: the last windows hang over and divide by what is inside.
  const Values hanging =
      run({{"method", "average"}, {"kernel", 3}, {"stride", 2}}, {1, 1, 4, 4}, Values(16, 1));
  check_close(hanging, {1, 1, 1, 1}, 1e-6, "overhang does not count");
}

TEST_CASE("pooling: padding never is the maximum") {
  CHECK(run({{"kernel", 3}, {"stride", 2}, {"padding", 1}}, {1, 1, 3, 3}, Values(9, -5)) ==
        Values(4, -5));
}

TEST_CASE("pooling: bad geometry") {
  const auto refuse = [](Json fields, Shape input) { define(pooling(std::move(fields)), {input}); };
  CHECK_THROWS_WITH(refuse({{"kernel", 2}}, {2, 10}),
                    "[pooling 'pool'] expected an input with height and width, got 2x10");
  CHECK_THROWS_WITH(refuse(Json::object(), {1, 1, 4, 4}),
                    "[pooling 'pool'] \"kernel\" is missing (or \"global\": true)");
  CHECK_THROWS_WITH(refuse({{"kernel", 2}, {"global", true}}, {1, 1, 4, 4}),
                    "[pooling 'pool'] \"global\" takes the whole input: \"kernel\" and \"padding\" "
                    "do not go with it");
  CHECK_THROWS_WITH(
      refuse({{"kernel", 2}, {"padding", 2}}, {1, 1, 4, 4}),
      "[pooling 'pool'] \"padding\" must be smaller than the kernel, got 2 with kernel 2");
  CHECK_THROWS_WITH(refuse({{"kernel", 5}}, {1, 1, 4, 4}),
                    "[pooling 'pool'] kernel spans 5 but the padded input has only 4 rows");
}
