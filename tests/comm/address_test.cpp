#include "comm/wire/address.h"

#include <doctest/doctest.h>

#include "core/error.h"

using namespace poseidon;
using namespace poseidon::comm;

TEST_CASE("parse_address() and to_string() round-trip every valid address") {
  for (const char* address : {"gpu3:7000", "127.0.0.1:0", "[::1]:65535", "[fe80::1]:7000"})
    CHECK(to_string(parse_address(address)) == address);
  CHECK(parse_address("[::1]:7000").host == "::1");
  CHECK(parse_address("gpu3:7000").port == 7000);
}

TEST_CASE("parse_address() rejects a malformed address") {
  CHECK_THROWS_WITH_AS(
      parse_address("gpu3"),
      "expected HOST:PORT with a port of 0 to 65535 (IPv6: [ADDRESS]:PORT), got \"gpu3\"",
      ConfigError);
  for (const char* address : {"", ":7000", "gpu3:", "gpu3:x", "gpu3:7000x", "gpu3:65536", "gpu3:-1",
                              "::1:7000", "[::1:7000", "a]:1"})
    CHECK_THROWS_AS(parse_address(address), ConfigError);
}

TEST_CASE("host_of() returns the part of an address before the port") {
  CHECK(host_of("[::1]:7000") == "[::1]");
  CHECK(host_of("gpu3:7000") == "gpu3");
}
