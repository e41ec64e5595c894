#include "core/digest.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/isas.h"

using namespace poseidon;

namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

std::vector<std::byte> filled(size_t count, int first, int step) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < count; ++i)
    bytes.push_back(static_cast<std::byte>(first + step * static_cast<int>(i)));
  return bytes;
}

}  // namespace

TEST_CASE("sha-256: digests equal those of FIPS 180-4") {
  CHECK(sha256_hex({}) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex(bytes_of("abc")) ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256_hex(bytes_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")) ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST_CASE("sha-256: the digest does not depend on how the stream is split") {
  const std::string million(1000000, 'a');
  Sha256 digest;
  for (size_t at = 0, piece = 1; at < million.size(); at += piece, ++piece)
    digest.update(bytes_of(std::string_view(million).substr(at, piece)));
  CHECK(digest.hex() == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("crc-32c: values equal those of RFC 3720, appendix B.4") {
  CHECK(crc32c(filled(32, 0, 0)) == 0x8a9136aau);
  CHECK(crc32c(filled(32, 255, 0)) == 0x62a8ab43u);
  CHECK(crc32c(filled(32, 0, 1)) == 0x46dd794eu);
  CHECK(crc32c(filled(32, 31, -1)) == 0x113fdb5cu);
  CHECK(crc32c(bytes_of("123456789")) == 0xe3069283u);
}

TEST_CASE("crc-32c: the value of an empty input is 0, and segments of any length can be chained") {
  CHECK(crc32c({}) == 0);
  const std::vector<std::byte> bytes = filled(100, 3, 7);
  const std::span<const std::byte> all(bytes);
  for (size_t cut = 0; cut <= bytes.size(); ++cut)
    CHECK(crc32c(all.subspan(cut), crc32c(all.first(cut))) == crc32c(all));
}

TEST_CASE("crc-32c: a long input has the same value in one call as in segments") {
  // Long enough for the code with several parallel checksums. The pieces of 100 bytes are too short
  // for it.
  const std::vector<std::byte> bytes = filled(20000, 5, 11);
  for_each_isa([&] {
    for (size_t count : {511, 512, 513, 767, 768, 1025, 3071, 3072, 3073, 6144, 9215, 20000}) {
      const auto all = std::span(bytes).first(count);
      uint32_t crc = 0;
      for (size_t at = 0; at < count; at += 100)
        crc = crc32c(all.subspan(at, std::min<size_t>(100, count - at)), crc);
      CHECK(crc32c(all) == crc);
      const size_t half = count / 2;
      CHECK(crc32c(all.subspan(half), crc32c(all.first(half))) == crc);
    }
  });
}
