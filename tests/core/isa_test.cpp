#include "core/isa.h"

#include <doctest/doctest.h>

#include "core/error.h"
#include "tests/support/isas.h"

using namespace poseidon;

TEST_CASE("isa: the best supported level is the default, another one can be chosen") {
  const Isa best = isa();
  CHECK(isa_is_best());
  int count = 0;
  for_each_isa([&] {
    ++count;
    CHECK(isa_is_best() == (isa() == best));
    CHECK((!has_wide_carryless() || isa() == best));
  });
  CHECK(count >= 1);
  CHECK(isa() == best);
}

TEST_CASE("isa: an unknown name is rejected and changes nothing") {
  const Isa best = isa();
  CHECK_THROWS_WITH_AS(choose_isa("x86-64-v9"), doctest::Contains("got \"x86-64-v9\""),
                       ConfigError);
  CHECK(isa() == best);
}
