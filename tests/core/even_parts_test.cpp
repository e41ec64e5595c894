#include "core/even_parts.h"

#include <doctest/doctest.h>

using namespace poseidon;

TEST_CASE("even_range() splits a range into adjacent parts that differ by at most one") {
  for (int64_t count = 1; count <= 40; ++count)
    for (int64_t parts = 1; parts <= count; ++parts) {
      int64_t next = 0, before = count;
      for (int64_t index = 0; index < parts; ++index) {
        const IndexRange part = even_range(count, parts, index);
        CHECK(part.first == next);
        CHECK(part.count >= count / parts);
        CHECK(part.count <= count / parts + 1);
        CHECK(part.count <= before);
        next = part.end();
        before = part.count;
      }
      CHECK(next == count);
    }
}

TEST_CASE("even_range() splits counts above 32 bits") {
  constexpr int64_t kMany = int64_t{1} << 40;
  CHECK(even_range(kMany + 1, 2, 0) == IndexRange{.first = 0, .count = kMany / 2 + 1});
  CHECK(even_range(kMany + 1, 2, 1) == IndexRange{.first = kMany / 2 + 1, .count = kMany / 2});
}
