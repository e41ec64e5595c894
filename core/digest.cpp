#include "core/digest.h"

#include <openssl/evp.h>
#ifdef __SSE4_2__
#include <immintrin.h>
#endif

#include <array>
#include <cstring>
#include <string_view>

#include "core/error.h"
#include "core/isa.h"

namespace poseidon {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  if (state_->context == nullptr || EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) != 1)
    throw RunError("SHA-256 is not available in this OpenSSL");
}

Sha256::~Sha256() = default;

void Sha256::update(std::span<const std::byte> bytes) {
  EVP_DigestUpdate(state_->context, bytes.data(), bytes.size());
}

std::string Sha256::hex() {
  std::array<unsigned char, 32> digest{};
  EVP_DigestFinal_ex(state_->context, digest.data(), nullptr);
  return hexadecimal(std::as_bytes(std::span(digest)));
}

std::string hexadecimal(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const std::byte byte : bytes) {
    out += kDigits[std::to_integer<size_t>(byte >> 4)];
    out += kDigits[std::to_integer<size_t>(byte & std::byte{15})];
  }
  return out;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 digest;
  digest.update(bytes);
  return digest.hex();
}

namespace {

#ifdef __SSE4_2__
uint32_t advance_words(uint32_t crc, const unsigned char* bytes, size_t count) {
  uint64_t wide = crc;
  for (; count >= 8; bytes += 8, count -= 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes, 8);
    wide = _mm_crc32_u64(wide, word);
  }
  crc = static_cast<uint32_t>(wide);
  for (; count > 0; ++bytes, --count) crc = _mm_crc32_u8(crc, *bytes);
  return crc;
}

/// x^n modulo the CRC-32C polynomial. The highest bit of the result is the coefficient of x^0.
constexpr uint32_t power_of_x(int n) {
  uint32_t value = 0x80000000u;
  for (; n > 0; --n) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82F63B78u : 0u);
  return value;
}

/// Bytes folded at once: four vectors of 64 bytes.
constexpr size_t kFoldBytes = 256;

/// The factors that move the halves of a 128-bit value forward by kFoldBytes. Source: Gopal et al.,
/// Fast CRC Computation for Generic Polynomials Using PCLMULQDQ, Intel 2009. Each factor is a power
/// of x modulo the polynomial, shifted by one bit, because a product of bit-reversed factors
/// is shifted too.
constexpr int kFoldBits = 8 * static_cast<int>(kFoldBytes);
constexpr int64_t kFoldLow = int64_t{power_of_x(kFoldBits + 32)} << 1;
constexpr int64_t kFoldHigh = int64_t{power_of_x(kFoldBits - 32)} << 1;

/// Reduces `bytes` to kFoldBytes bytes in `folded`. The CRC of `folded`, started from 0, equals the
/// CRC of `bytes`, started from `crc`. `count` is a positive multiple of kFoldBytes.
POSEIDON_WIDE_CARRYLESS void fold(uint32_t crc, const unsigned char* bytes, size_t count,
                                  unsigned char* folded) {
  const __m512i factors = _mm512_set4_epi64(kFoldHigh, kFoldLow, kFoldHigh, kFoldLow);
  __m512i sums[4];
  for (size_t i = 0; i < 4; ++i) sums[i] = _mm512_loadu_si512(bytes + 64 * i);
  sums[0] =
      _mm512_xor_si512(sums[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(crc))));
  for (size_t at = kFoldBytes; at < count; at += kFoldBytes)
    for (size_t i = 0; i < 4; ++i) {
      const __m512i low = _mm512_clmulepi64_epi128(sums[i], factors, 0x00);
      const __m512i high = _mm512_clmulepi64_epi128(sums[i], factors, 0x11);
      sums[i] =
          _mm512_xor_si512(_mm512_xor_si512(low, high), _mm512_loadu_si512(bytes + at + 64 * i));
    }
  for (size_t i = 0; i < 4; ++i) _mm512_storeu_si512(folded + 64 * i, sums[i]);
}

/// Advances `crc` over the longest prefix whose length is a multiple of kFoldBytes. Returns the
/// length of this prefix. Does nothing and returns 0 if `count` is less than twice kFoldBytes.
size_t advance_folded(uint32_t& crc, const unsigned char* bytes, size_t count) {
  if (count < 2 * kFoldBytes) return 0;
  const size_t whole = count / kFoldBytes * kFoldBytes;
  std::array<unsigned char, kFoldBytes> folded;
  fold(crc, bytes, whole, folded.data());
  crc = advance_words(0, folded.data(), folded.size());
  return whole;
}

/// A linear map of the 32 bits of a checksum: the image of each single bit.
using BitMap = std::array<uint32_t, 32>;

constexpr uint32_t image(const BitMap& map, uint32_t value) {
  uint32_t out = 0;
  for (size_t bit = 0; bit < 32; ++bit) out ^= (value >> bit & 1) != 0 ? map[bit] : 0;
  return out;
}

/// The map that 2^k zero bits apply to a checksum.
constexpr BitMap zeros(int k) {
  BitMap map{0x82F63B78u};
  for (size_t bit = 1; bit < 32; ++bit) map[bit] = 1u << (bit - 1);
  for (; k > 0; --k) {
    BitMap twice{};
    for (size_t bit = 0; bit < 32; ++bit) twice[bit] = image(map, map[bit]);
    map = twice;
  }
  return map;
}

constexpr size_t kLaneBytes = 1024;

/// The map for kLaneBytes zero bytes, as one table for each byte of a checksum.
constexpr std::array<std::array<uint32_t, 256>, 4> make_lane_table() {
  const BitMap map = zeros(13);
  std::array<std::array<uint32_t, 256>, 4> table{};
  for (uint32_t place = 0; place < 4; ++place)
    for (uint32_t byte = 0; byte < 256; ++byte) table[place][byte] = image(map, byte << 8 * place);
  return table;
}

uint32_t skip_lane(uint64_t crc) {
  static constexpr auto kTable = make_lane_table();
  return kTable[0][crc & 255] ^ kTable[1][crc >> 8 & 255] ^ kTable[2][crc >> 16 & 255] ^
         kTable[3][crc >> 24 & 255];
}

/// Advances `crc` over three consecutive lanes of kLaneBytes each, and returns it. Processes the
/// lanes at the same time: the CRC instruction has a latency of three cycles, but the processor can
/// start one in each cycle.
uint32_t advance_lanes(uint32_t crc, const unsigned char* bytes) {
  uint64_t a = crc, b = 0, c = 0;
  for (size_t i = 0; i < kLaneBytes; i += 8) {
    uint64_t words[3];
    for (size_t lane = 0; lane < 3; ++lane)
      std::memcpy(&words[lane], bytes + lane * kLaneBytes + i, 8);
    a = _mm_crc32_u64(a, words[0]);
    b = _mm_crc32_u64(b, words[1]);
    c = _mm_crc32_u64(c, words[2]);
  }
  return skip_lane(skip_lane(a) ^ b) ^ static_cast<uint32_t>(c);
}

/// Advances `crc` over the longest prefix that consists of groups of three lanes. Returns the
/// length of this prefix. Used if has_wide_carryless() is false.
size_t advance_in_lanes(uint32_t& crc, const unsigned char* bytes, size_t count) {
  size_t done = 0;
  for (; count - done >= 3 * kLaneBytes; done += 3 * kLaneBytes)
    crc = advance_lanes(crc, bytes + done);
  return done;
}

uint32_t advance(uint32_t crc, const unsigned char* bytes, size_t count) {
  const size_t done = has_wide_carryless() ? advance_folded(crc, bytes, count)
                                           : advance_in_lanes(crc, bytes, count);
  return advance_words(crc, bytes + done, count - done);
}
#else
constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82F63B78u : 0u);
    table[i] = value;
  }
  return table;
}

uint32_t advance(uint32_t crc, const unsigned char* bytes, size_t count) {
  static constexpr std::array<uint32_t, 256> kTable = make_table();
  for (size_t i = 0; i < count; ++i) crc = kTable[(crc ^ bytes[i]) & 255] ^ (crc >> 8);
  return crc;
}
#endif

}  // namespace

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t crc) {
  return ~advance(~crc, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

}  // namespace poseidon
