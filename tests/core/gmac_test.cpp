#include "core/gmac.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/isas.h"

using namespace poseidon;

namespace {

std::string hex(const Gmac::Tag& tag) {
  std::string out;
  for (std::byte byte : tag) {
    out += "0123456789abcdef"[static_cast<size_t>(byte >> 4)];
    out += "0123456789abcdef"[static_cast<size_t>(byte & std::byte{15})];
  }
  return out;
}

std::vector<std::byte> message(size_t count) {
  std::vector<std::byte> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<std::byte>(i * 31 + i / 256);
  return out;
}

Gmac::Key some_key() {
  Gmac::Key key;
  for (size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::byte>(i * 7 + 1);
  return key;
}

/// The tag of `bytes`, added in pieces of at most `most` bytes.
std::string tag_of(Gmac& gmac, uint64_t number, std::span<const std::byte> bytes, size_t most) {
  gmac.begin(number);
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(most, bytes.size())))
    gmac.update(bytes.first(std::min(most, bytes.size())));
  return hex(gmac.finish());
}

}  // namespace

TEST_CASE("gmac: the tag of an empty message under a zero key and nonce is the published one") {
  Gmac gmac{Gmac::Key{}};
  gmac.begin(0);
  CHECK(hex(gmac.finish()) == "530f8afbc74536b9a963b4f1c4cb738b");
}

TEST_CASE("gmac: tags equal those of OpenSSL's AES-256-GCM, however the message is split") {
  const std::vector<std::pair<size_t, const char*>> expected{
      {0, "62bf14227d5ded2de7e4826d79b0836c"},      {1, "6fc22e2d5fa3ab239922f78e469cf219"},
      {16, "a45f3dfb83d209b8604060719d2d13fe"},     {56, "d5449d01d4577a895e9432cffd5c0667"},
      {511, "ff97b7b66fde399ba754d1a24833a023"},    {512, "26291cfff3803a23496d7dc5f09c1e02"},
      {513, "4a4b4362155ac66bde80b07a8a0736ec"},    {5000, "c1d4c879ed5ccb36503212706750f7cc"},
      {100000, "8b7867e34cae788c64ffd2559423d40c"},
  };
  for_each_isa([&] {
    Gmac gmac(some_key());
    for (const auto& [bytes, tag] : expected)
      for (size_t most : {1, 7, 16, 500, 512, 1000, 100000}) {
        const size_t count = bytes;
        CAPTURE(count);
        CAPTURE(most);
        CHECK(tag_of(gmac, count * 1000003, message(count), most) == tag);
      }
  });
}

TEST_CASE("gmac: another nonce, key, bit or length changes the tag") {
  Gmac gmac(some_key());
  std::vector<std::byte> bytes = message(1000);
  const std::string tag = tag_of(gmac, 5, bytes, 1000);
  CHECK(tag_of(gmac, 5, bytes, 1000) == tag);
  CHECK(tag_of(gmac, 6, bytes, 1000) != tag);
  Gmac other{Gmac::Key{}};
  CHECK(tag_of(other, 5, bytes, 1000) != tag);
  for (size_t at : {0, 511, 512, 999}) {
    bytes[at] ^= std::byte{1};
    CHECK(tag_of(gmac, 5, bytes, 1000) != tag);
    bytes[at] ^= std::byte{1};
  }
  bytes.push_back(std::byte{0});
  CHECK(tag_of(gmac, 5, bytes, 1001) != tag);
}
