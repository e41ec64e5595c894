#include "core/shape.h"

#include <doctest/doctest.h>

#include <set>
#include <vector>

#include "core/error.h"
#include "core/tensor.h"

using namespace poseidon;

TEST_CASE("a shape counts its elements and names its extents") {
  const Shape shape{2, 3, 4, 5};
  CHECK(shape.rank() == 4);
  CHECK(shape.count() == 120);
  CHECK(shape.samples() == 2);
  CHECK(shape.channels() == 3);
  CHECK(shape.height() == 4);
  CHECK(shape.width() == 5);
  CHECK(shape.area() == 20);
  CHECK(shape.sample_count() == 60);
  CHECK(shape.text() == "2x3x4x5");
}

TEST_CASE("missing extents of a shape are 1") {
  const Shape features{8, 10};
  CHECK(features.area() == 1);
  CHECK(features.sample_count() == 10);
  CHECK(Shape{}.count() == 1);
  CHECK(Shape{}.text() == "scalar");
  CHECK(Shape{7}.channels() == 1);
}

TEST_CASE("shapes are equal if their ranks and extents are equal") {
  CHECK(Shape{2, 3} == Shape{2, 3});
  CHECK(Shape{2, 3} != Shape{3, 2});
  CHECK(Shape{2, 3} != Shape{2, 3, 1, 1});
}

TEST_CASE("a shape of five extents is a LogicError") {
  CHECK_THROWS_WITH_AS((Shape{1, 2, 3, 4, 5}), "a shape has at most four extents", LogicError);
}

TEST_CASE("every layout stores each element at a separate offset") {
  const Shape shape{2, 11, 3, 2};
  for (Layout layout :
       {Layout::kPlain, Layout::kChannelsLast, Layout::kBlocked8, Layout::kBlocked16}) {
    CAPTURE(layout_name(layout));
    const Blocking blocking(shape, layout);
    std::set<int64_t> places;
    for (int64_t n = 0; n < 2; ++n)
      for (int64_t c = 0; c < 11; ++c)
        for (int64_t p = 0; p < 6; ++p) places.insert(blocking.offset(n, c, p));
    CHECK(places.size() == 2 * 11 * 6);
    CHECK(*places.rbegin() < blocking.count());
  }
}

TEST_CASE("offsets of each layout equal the definition of its format") {
  const Shape shape{2, 20, 3, 2};
  CHECK(Blocking(shape, Layout::kPlain).offset(1, 5, 4) == (1 * 20 + 5) * 6 + 4);
  CHECK(Blocking(shape, Layout::kChannelsLast).offset(1, 5, 4) == (1 * 6 + 4) * 20 + 5);
  CHECK(Blocking(shape, Layout::kBlocked8).offset(1, 13, 4) == ((1 * 3 + 1) * 6 + 4) * 8 + 5);
  CHECK(Blocking(shape, Layout::kBlocked16).offset(1, 19, 4) == ((1 * 2 + 1) * 6 + 4) * 16 + 3);
}

TEST_CASE("stored_count() includes the padding of a layout") {
  const Shape shape{2, 20, 3, 2};
  CHECK(stored_count(shape, Layout::kPlain) == 240);
  CHECK(stored_count(shape, Layout::kChannelsLast) == 240);
  CHECK(stored_count(shape, Layout::kBlocked8) == 2 * 24 * 6);
  CHECK(stored_count(shape, Layout::kBlocked16) == 2 * 32 * 6);
}

TEST_CASE("a tensor without memory converts to false") {
  float value = 0;
  CHECK_FALSE(Tensor{});
  CHECK(Tensor{&value, {1}, kPlainFp32});
}
