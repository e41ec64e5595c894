#include "core/even_parts.h"

#include <doctest/doctest.h>

using namespace poseidon;

TEST_CASE("even parts follow each other and differ by one at most, larger ones first") {
  for (int64_t count = 1; count <= 40; ++count)
    for (int64_t parts = 1; parts <= count; ++parts) {
      int64_t next = 0, before = count;
      for (int64_t index = 0; index < parts; ++index) {
        const IndexRange part = even_part(count, parts, index);
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

TEST_CASE("counts beyond 32 bits are cut too") {
  constexpr int64_t kMany = int64_t{1} << 40;
  CHECK(even_part(kMany + 1, 2, 0) == IndexRange{.first = 0, .count = kMany / 2 + 1});
  CHECK(even_part(kMany + 1, 2, 1) == IndexRange{.first = kMany / 2 + 1, .count = kMany / 2});
}
