#include "trainer/report/event_file.h"

#include <doctest/doctest.h>

#include <array>

using namespace poseidon::trainer;

TEST_CASE("a record is framed by its length and masked checksums") {
  const std::string record = tf_record("abc");
  REQUIRE(record.size() == 8 + 4 + 3 + 4);
  CHECK(record.substr(0, 8) == std::string("\x03\0\0\0\0\0\0\0", 8));
  CHECK(record.substr(12, 3) == "abc");
}

TEST_CASE("an event is encoded as its protocol buffer") {
  const std::array<Scalar, 1> scalars{Scalar{"a", 1.0}};
  const std::string expected(
      "\x09\0\0\0\0\0\0\0\x40"  // wall_time = 2.0
      "\x10\xAC\x02"            // step = 300
      "\x2A\x0A"                // summary, 10 bytes
      "\x0A\x08"                // value, 8 bytes
      "\x0A\x01\x61"            // tag = "a"
      "\x15\0\0\x80\x3F",       // simple_value = 1.0
      9 + 3 + 2 + 2 + 3 + 5);
  CHECK(event_message(300, 2.0, scalars) == expected);
}
