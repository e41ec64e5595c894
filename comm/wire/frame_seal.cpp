#include "comm/wire/frame_seal.h"

#include <cstring>

#include "core/digest.h"

namespace poseidon::comm {

uint64_t ChecksumSeal::of_header(std::span<const std::byte> bytes) { return crc32c(bytes); }

void ChecksumSeal::add(std::span<const std::byte> bytes) { body_ = crc32c(bytes, body_); }

uint64_t ChecksumSeal::of_body() {
  const uint64_t sum = body_;
  body_ = 0;
  return sum;
}

uint64_t KeyedSeal::of_header(std::span<const std::byte> bytes) {
  gmac_.begin(2 * headers_++);
  gmac_.update(bytes);
  return finish();
}

void KeyedSeal::add(std::span<const std::byte> bytes) {
  if (!in_body_) gmac_.begin(2 * bodies_ + 1);
  in_body_ = true;
  gmac_.update(bytes);
}

uint64_t KeyedSeal::of_body() {
  add({});
  in_body_ = false;
  ++bodies_;
  return finish();
}

uint64_t KeyedSeal::finish() {
  const Gmac::Tag tag = gmac_.finish();
  uint64_t seal = 0;
  std::memcpy(&seal, tag.data(), sizeof seal);
  return seal;
}

}  // namespace poseidon::comm
