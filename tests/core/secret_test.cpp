#include "core/secret.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

using namespace poseidon;

namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string hex(std::span<const std::byte> bytes) {
  std::string out;
  for (std::byte byte : bytes) {
    out += "0123456789abcdef"[static_cast<int>(byte) >> 4];
    out += "0123456789abcdef"[static_cast<int>(byte) & 15];
  }
  return out;
}

}  // namespace

TEST_CASE("hmac-sha256: values equal those of RFC 4231") {
  const std::vector<std::byte> key(20, std::byte{0x0b});
  CHECK(hex(hmac_sha256(key, bytes_of("Hi There"))) ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(hex(hmac_sha256(bytes_of("Jefe"), bytes_of("what do ya want for nothing?"))) ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  // The key is longer than a block of SHA-256.
  const std::vector<std::byte> long_key(131, std::byte{0xaa});
  CHECK(hex(hmac_sha256(long_key,
                        bytes_of("Test Using Larger Than Block-Size Key - Hash Key First"))) ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST_CASE("hmac-sha256: an empty message under an empty key has the known value") {
  CHECK(hex(hmac_sha256({}, {})) ==
        "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

TEST_CASE("equal_in_constant_time() compares every byte and the length") {
  const std::string a = "0123456789";
  for (size_t i = 0; i < a.size(); ++i) {
    std::string b = a;
    b[i] = static_cast<char>(b[i] ^ 1);
    CHECK_FALSE(equal_in_constant_time(bytes_of(a), bytes_of(b)));
  }
  CHECK(equal_in_constant_time(bytes_of(a), bytes_of(std::string(a))));
  CHECK(equal_in_constant_time({}, {}));
  CHECK_FALSE(equal_in_constant_time(bytes_of(a), bytes_of("012345678")));
}

TEST_CASE("two draws of random bytes differ") {
  std::array<std::byte, 32> a{}, b{};
  fill_with_random_bytes(a);
  fill_with_random_bytes(b);
  CHECK(a != b);
}
