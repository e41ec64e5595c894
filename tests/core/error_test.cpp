#include "core/error.h"

#include <doctest/doctest.h>

using namespace poseidon;

TEST_CASE("text() concatenates its arguments") {
  CHECK(text("expected ", 3, ", got ", 4.5, '!') == "expected 3, got 4.5!");
}

TEST_CASE("check() throws a LogicError if its condition is false") {
  CHECK_NOTHROW(check(true, "never said"));
  CHECK_THROWS_WITH_AS(check(false, "two is not three"), "two is not three", LogicError);
}
