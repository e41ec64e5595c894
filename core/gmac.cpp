#include "core/gmac.h"

#include <openssl/evp.h>
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__VPCLMULQDQ__)
#ifndef __clang__  // values that GCC's header leaves undefined
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#define POSEIDON_WIDE_GHASH
#endif

#include <algorithm>
#include <cstring>

#include "core/error.h"

namespace poseidon {

namespace {

const unsigned char* octets(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

void require(bool done) {
  if (!done) throw RunError("AES-256-GMAC is not available in this OpenSSL");
}

std::array<unsigned char, 12> nonce_of(uint64_t number) {
  std::array<unsigned char, 12> nonce{};
  std::memcpy(nonce.data() + 4, &number, sizeof number);
  return nonce;
}

/// A cipher of OpenSSL's with its key.
class Cipher {
 public:
  Cipher(const EVP_CIPHER* kind, const Gmac::Key& key) : context_(EVP_CIPHER_CTX_new()) {
    require(context_ != nullptr &&
            EVP_EncryptInit_ex(context_, kind, nullptr, octets(key.data()), nullptr) == 1);
  }
  ~Cipher() { EVP_CIPHER_CTX_free(context_); }
  Cipher(const Cipher&) = delete;
  Cipher& operator=(const Cipher&) = delete;
  EVP_CIPHER_CTX* get() const { return context_; }

 private:
  EVP_CIPHER_CTX* context_;
};

}  // namespace

#ifdef POSEIDON_WIDE_GHASH

// OpenSSL 3.0 multiplies one block at a time, which takes six times as long as a checksum. Here
// 32 blocks are multiplied by 32 powers of the hash key, four to a vector, and reduced once.

namespace {

constexpr size_t kBlockBytes = 16;
constexpr size_t kWideBytes = 512;
constexpr size_t kPowers = kWideBytes / kBlockBytes;

/// Field elements as GCM has them, the bytes of each turned around; the key carries a factor x, so
/// that products of reflected polynomials need no shift.
__m512i reflect(__m512i blocks) {
  const __m512i order =
      _mm512_broadcast_i32x4(_mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  return _mm512_shuffle_epi8(blocks, order);
}

/// Products that are not reduced yet, lane by lane.
struct Sum {
  __m512i low = _mm512_setzero_si512(), middle = low, high = low;

  void add_product(__m512i a, __m512i b) {
    low = _mm512_xor_si512(low, _mm512_clmulepi64_epi128(a, b, 0x00));
    high = _mm512_xor_si512(high, _mm512_clmulepi64_epi128(a, b, 0x11));
    const __m512i crossed = _mm512_clmulepi64_epi128(a, b, 0x01);
    middle = _mm512_ternarylogic_epi64(middle, crossed, _mm512_clmulepi64_epi128(a, b, 0x10), 0x96);
  }
  /// Modulo x^128 + x^127 + x^126 + x^121 + 1, the reflected polynomial of GCM.
  __m512i reduced() const {
    const __m512i fold = _mm512_set1_epi64(static_cast<int64_t>(0xC200000000000000u));
    const __m512i first =
        _mm512_ternarylogic_epi64(middle, _mm512_shuffle_epi32(low, _MM_PERM_BADC),
                                  _mm512_clmulepi64_epi128(fold, low, 0x00), 0x96);
    return _mm512_ternarylogic_epi64(high, _mm512_shuffle_epi32(first, _MM_PERM_BADC),
                                     _mm512_clmulepi64_epi128(fold, first, 0x00), 0x96);
  }
};

__m128i add_lanes(__m512i lanes) {
  const __m256i half =
      _mm256_xor_si256(_mm512_castsi512_si256(lanes), _mm512_extracti64x4_epi64(lanes, 1));
  return _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

__m128i multiply(__m128i a, __m128i b) {
  Sum sum;
  sum.add_product(_mm512_zextsi128_si512(a), _mm512_zextsi128_si512(b));
  return _mm512_castsi512_si128(sum.reduced());
}

/// A reflected field element times x.
__m128i times_x(__m128i value) {
  uint64_t words[2];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(words), value);
  const bool over = words[1] >> 63 != 0;
  words[1] = words[1] << 1 | words[0] >> 63;
  words[0] <<= 1;
  if (over) {
    words[0] ^= 1;
    words[1] ^= 0xC200000000000000u;
  }
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(words));
}

}  // namespace

struct Gmac::State {
  Cipher aes;
  /// The key's powers, each with its factor x: the 32nd first, so that the last of any number of
  /// blocks meets the first power.
  alignas(64) __m128i powers[kPowers];
  alignas(64) std::array<std::byte, kWideBytes> waiting;  ///< the last bytes, less than a full load
  size_t waiting_count = 0;
  uint64_t message_bytes = 0;
  __m128i sum = _mm_setzero_si128();
  Tag mask{};  ///< the encrypted nonce

  explicit State(const Key& key) : aes(EVP_aes_256_ecb(), key) {
    const Tag zero{};
    const Tag hash_key = encrypt(zero);
    __m128i first;
    std::memcpy(&first, hash_key.data(), sizeof first);
    first = times_x(_mm512_castsi512_si128(reflect(_mm512_zextsi128_si512(first))));
    powers[kPowers - 1] = first;
    for (size_t i = kPowers - 1; i > 0; --i) powers[i - 1] = multiply(powers[i], first);
  }

  Tag encrypt(const Tag& block) {
    Tag out;
    int count = 0;
    require(EVP_EncryptUpdate(aes.get(), reinterpret_cast<unsigned char*>(out.data()), &count,
                              octets(block.data()), static_cast<int>(block.size())) == 1);
    return out;
  }

  void begin(uint64_t number) {
    Tag block{};
    const auto nonce = nonce_of(number);
    std::memcpy(block.data(), nonce.data(), nonce.size());
    block.back() = std::byte{1};
    mask = encrypt(block);
    sum = _mm_setzero_si128();
    waiting_count = 0;
    message_bytes = 0;
  }

  /// Whole blocks, at most as many as there are powers: the last meets the first power.
  void absorb(const std::byte* bytes, size_t count) {
    const __m128i* power = powers + kPowers - count / kBlockBytes;
    __m512i begun = _mm512_zextsi128_si512(sum);
    Sum products;
    for (size_t at = 0; at < count; at += 64, power += 4) {
      const size_t words = std::min<size_t>(8, (count - at) / 8);
      const auto present = static_cast<__mmask8>((1u << words) - 1);
      const __m512i blocks = reflect(_mm512_maskz_loadu_epi64(present, bytes + at));
      products.add_product(_mm512_xor_si512(blocks, begun),
                           _mm512_maskz_loadu_epi64(present, power));
      begun = _mm512_setzero_si512();
    }
    sum = add_lanes(products.reduced());
  }

  void update(std::span<const std::byte> bytes) {
    message_bytes += bytes.size();
    if (waiting_count > 0 || bytes.size() < kWideBytes) {
      const size_t now = std::min(bytes.size(), kWideBytes - waiting_count);
      std::copy_n(bytes.begin(), now, waiting.begin() + static_cast<ptrdiff_t>(waiting_count));
      waiting_count += now;
      bytes = bytes.subspan(now);
      if (waiting_count < kWideBytes) return;
      absorb(waiting.data(), kWideBytes);
      waiting_count = 0;
    }
    for (; bytes.size() >= kWideBytes; bytes = bytes.subspan(kWideBytes))
      absorb(bytes.data(), kWideBytes);
    std::copy(bytes.begin(), bytes.end(), waiting.begin());
    waiting_count = bytes.size();
  }

  Tag finish() {
    const size_t whole = (waiting_count + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
    std::fill(waiting.begin() + static_cast<ptrdiff_t>(waiting_count),
              waiting.begin() + static_cast<ptrdiff_t>(whole), std::byte{0});
    if (whole > 0) absorb(waiting.data(), whole);
    // The last block is the length in bits, big-endian; there is no text besides.
    alignas(16) std::array<std::byte, kBlockBytes> lengths{};
    for (size_t i = 0; i < 8; ++i)
      lengths[i] = static_cast<std::byte>(8 * message_bytes >> (56 - 8 * i));
    absorb(lengths.data(), lengths.size());
    Tag tag;
    const __m512i turned = reflect(_mm512_zextsi128_si512(sum));
    std::memcpy(tag.data(), &turned, tag.size());
    for (size_t i = 0; i < tag.size(); ++i) tag[i] ^= mask[i];
    return tag;
  }
};

#else

struct Gmac::State {
  Cipher gcm;

  explicit State(const Key& key) : gcm(EVP_aes_256_gcm(), key) {}

  void begin(uint64_t number) {
    require(EVP_EncryptInit_ex(gcm.get(), nullptr, nullptr, nullptr, nonce_of(number).data()) == 1);
  }

  void update(std::span<const std::byte> bytes) {
    int count = 0;
    require(bytes.empty() || EVP_EncryptUpdate(gcm.get(), nullptr, &count, octets(bytes.data()),
                                               static_cast<int>(bytes.size())) == 1);
  }

  Tag finish() {
    Tag tag;
    int count = 0;
    unsigned char nothing = 0;
    require(EVP_EncryptFinal_ex(gcm.get(), &nothing, &count) == 1 &&
            EVP_CIPHER_CTX_ctrl(gcm.get(), EVP_CTRL_GCM_GET_TAG, static_cast<int>(tag.size()),
                                tag.data()) == 1);
    return tag;
  }
};

#endif

Gmac::Gmac(const Key& key) : state_(std::make_unique<State>(key)) {}
Gmac::~Gmac() = default;
Gmac::Gmac(Gmac&&) noexcept = default;
Gmac& Gmac::operator=(Gmac&&) noexcept = default;

void Gmac::begin(uint64_t number) { state_->begin(number); }
void Gmac::update(std::span<const std::byte> bytes) { state_->update(bytes); }
Gmac::Tag Gmac::finish() { return state_->finish(); }

}  // namespace poseidon
