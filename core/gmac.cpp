#include "core/gmac.h"

#include <openssl/evp.h>
#if defined(__x86_64__)
#ifndef __clang__  // GCC's header leaves some values undefined
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/isa.h"

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

/// An OpenSSL cipher context with its key.
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

/// An implementation of GMAC.
struct Gmac::State {
  virtual ~State() = default;
  virtual void begin(uint64_t number) = 0;
  virtual void update(std::span<const std::byte> bytes) = 0;
  virtual Tag finish() = 0;
};

namespace {

/// OpenSSL's implementation.
class PlainGmac final : public Gmac::State {
 public:
  explicit PlainGmac(const Gmac::Key& key) : gcm_(EVP_aes_256_gcm(), key) {}

  void begin(uint64_t number) override {
    require(EVP_EncryptInit_ex(gcm_.get(), nullptr, nullptr, nullptr, nonce_of(number).data()) ==
            1);
  }

  void update(std::span<const std::byte> bytes) override {
    int count = 0;
    require(bytes.empty() || EVP_EncryptUpdate(gcm_.get(), nullptr, &count, octets(bytes.data()),
                                               static_cast<int>(bytes.size())) == 1);
  }

  Gmac::Tag finish() override {
    Gmac::Tag tag;
    int count = 0;
    unsigned char nothing = 0;
    require(EVP_EncryptFinal_ex(gcm_.get(), &nothing, &count) == 1 &&
            EVP_CIPHER_CTX_ctrl(gcm_.get(), EVP_CTRL_GCM_GET_TAG, static_cast<int>(tag.size()),
                                tag.data()) == 1);
    return tag;
  }

 private:
  Cipher gcm_;
};

#if defined(__x86_64__)

// OpenSSL 3.0 multiplies one block at a time, which takes six times as long as a CRC-32C. This
// implementation multiplies 32 blocks by 32 powers of the hash key, four blocks in each vector, and
// reduces the sum once.

constexpr size_t kBlockBytes = 16;
constexpr size_t kWideBytes = 512;
constexpr size_t kPowers = kWideBytes / kBlockBytes;

/// Reverses the bytes of each 16-byte block, to form a field element of GCM. Only the key has an
/// additional factor x; therefore products of reflected polynomials need no shift.
POSEIDON_WIDE_CARRYLESS inline __m512i reflect(__m512i blocks) {
  const __m512i order =
      _mm512_broadcast_i32x4(_mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  return _mm512_shuffle_epi8(blocks, order);
}

/// Sums of unreduced products, one in each 128-bit lane.
struct Sum {
  __m512i low, middle, high;

  POSEIDON_WIDE_CARRYLESS Sum() : low(_mm512_setzero_si512()), middle(low), high(low) {}
  POSEIDON_WIDE_CARRYLESS void add_product(__m512i a, __m512i b) {
    low = _mm512_xor_si512(low, _mm512_clmulepi64_epi128(a, b, 0x00));
    high = _mm512_xor_si512(high, _mm512_clmulepi64_epi128(a, b, 0x11));
    const __m512i crossed = _mm512_clmulepi64_epi128(a, b, 0x01);
    middle = _mm512_ternarylogic_epi64(middle, crossed, _mm512_clmulepi64_epi128(a, b, 0x10), 0x96);
  }
  /// The sums modulo x^128 + x^127 + x^126 + x^121 + 1, the reflected polynomial of GCM.
  POSEIDON_WIDE_CARRYLESS __m512i reduced() const {
    const __m512i fold = _mm512_set1_epi64(static_cast<int64_t>(0xC200000000000000u));
    const __m512i first =
        _mm512_ternarylogic_epi64(middle, _mm512_shuffle_epi32(low, _MM_PERM_BADC),
                                  _mm512_clmulepi64_epi128(fold, low, 0x00), 0x96);
    return _mm512_ternarylogic_epi64(high, _mm512_shuffle_epi32(first, _MM_PERM_BADC),
                                     _mm512_clmulepi64_epi128(fold, first, 0x00), 0x96);
  }
};

POSEIDON_WIDE_CARRYLESS inline __m128i add_lanes(__m512i lanes) {
  const __m256i half =
      _mm256_xor_si256(_mm512_castsi512_si256(lanes), _mm512_extracti64x4_epi64(lanes, 1));
  return _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

POSEIDON_WIDE_CARRYLESS inline __m128i multiply(__m128i a, __m128i b) {
  Sum sum;
  sum.add_product(_mm512_zextsi128_si512(a), _mm512_zextsi128_si512(b));
  return _mm512_castsi512_si128(sum.reduced());
}

/// Multiplies a reflected field element by x.
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

/// GHASH (NIST SP 800-38D): the sum of blocks, each multiplied by a power of the hash key.
class WideGhash {
 public:
  /// `key`: the encrypted zero block.
  POSEIDON_WIDE_CARRYLESS explicit WideGhash(const Gmac::Tag& key) {
    __m128i first;
    std::memcpy(&first, key.data(), sizeof first);
    first = times_x(_mm512_castsi512_si128(reflect(_mm512_zextsi128_si512(first))));
    powers_[kPowers - 1] = first;
    for (size_t i = kPowers - 1; i > 0; --i) powers_[i - 1] = multiply(powers_[i], first);
  }

  void begin() { sum_ = _mm_setzero_si128(); }
  /// Adds whole blocks, at most kPowers of them. `count` is their size in bytes. The last block is
  /// multiplied by the first power of the key.
  POSEIDON_WIDE_CARRYLESS void absorb(const std::byte* bytes, size_t count) {
    const __m128i* power = powers_ + kPowers - count / kBlockBytes;
    __m512i begun = _mm512_zextsi128_si512(sum_);
    Sum products;
    for (size_t at = 0; at < count; at += 64, power += 4) {
      const size_t left = (count - at) / 8, words = left < 8 ? left : 8;
      const auto present = static_cast<__mmask8>((1u << words) - 1);
      const __m512i blocks = reflect(_mm512_maskz_loadu_epi64(present, bytes + at));
      products.add_product(_mm512_xor_si512(blocks, begun),
                           _mm512_maskz_loadu_epi64(present, power));
      begun = _mm512_setzero_si512();
    }
    sum_ = add_lanes(products.reduced());
  }
  POSEIDON_WIDE_CARRYLESS void finish(std::byte* sum) const {
    const __m512i turned = reflect(_mm512_zextsi128_si512(sum_));
    std::memcpy(sum, &turned, kBlockBytes);
  }

 private:
  /// The powers of the hash key, each with the additional factor x (see reflect()), highest first.
  alignas(64) __m128i powers_[kPowers];
  __m128i sum_ = _mm_setzero_si128();
};

class WideGmac final : public Gmac::State {
 public:
  explicit WideGmac(const Gmac::Key& key) : aes_(EVP_aes_256_ecb(), key), ghash_(encrypt({})) {}

  void begin(uint64_t number) override {
    Gmac::Tag block{};
    const auto nonce = nonce_of(number);
    std::memcpy(block.data(), nonce.data(), nonce.size());
    block.back() = std::byte{1};
    mask_ = encrypt(block);
    ghash_.begin();
    waiting_count_ = 0;
    message_bytes_ = 0;
  }

  void update(std::span<const std::byte> bytes) override {
    message_bytes_ += bytes.size();
    if (waiting_count_ > 0 || bytes.size() < kWideBytes) {
      const size_t now = std::min(bytes.size(), kWideBytes - waiting_count_);
      std::copy_n(bytes.begin(), now, waiting_.begin() + static_cast<ptrdiff_t>(waiting_count_));
      waiting_count_ += now;
      bytes = bytes.subspan(now);
      if (waiting_count_ < kWideBytes) return;
      ghash_.absorb(waiting_.data(), kWideBytes);
      waiting_count_ = 0;
    }
    for (; bytes.size() >= kWideBytes; bytes = bytes.subspan(kWideBytes))
      ghash_.absorb(bytes.data(), kWideBytes);
    std::copy(bytes.begin(), bytes.end(), waiting_.begin());
    waiting_count_ = bytes.size();
  }

  Gmac::Tag finish() override {
    const size_t whole = (waiting_count_ + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
    std::fill(waiting_.begin() + static_cast<ptrdiff_t>(waiting_count_),
              waiting_.begin() + static_cast<ptrdiff_t>(whole), std::byte{0});
    if (whole > 0) ghash_.absorb(waiting_.data(), whole);
    // The last block has two big-endian numbers: the length of the message in bits, and the length
    // of the ciphertext, which is 0.
    alignas(16) std::array<std::byte, kBlockBytes> lengths{};
    for (size_t i = 0; i < 8; ++i)
      lengths[i] = static_cast<std::byte>(8 * message_bytes_ >> (56 - 8 * i));
    ghash_.absorb(lengths.data(), lengths.size());
    Gmac::Tag tag;
    ghash_.finish(tag.data());
    for (size_t i = 0; i < tag.size(); ++i) tag[i] ^= mask_[i];
    return tag;
  }

 private:
  Gmac::Tag encrypt(const Gmac::Tag& block) {
    Gmac::Tag out;
    int count = 0;
    require(EVP_EncryptUpdate(aes_.get(), reinterpret_cast<unsigned char*>(out.data()), &count,
                              octets(block.data()), static_cast<int>(block.size())) == 1);
    return out;
  }

  Cipher aes_;
  WideGhash ghash_;
  /// Bytes not yet passed to ghash_, fewer than kWideBytes.
  alignas(64) std::array<std::byte, kWideBytes> waiting_;
  size_t waiting_count_ = 0;
  uint64_t message_bytes_ = 0;
  Gmac::Tag mask_{};  ///< the encrypted first counter block; the tag is its xor with GHASH
};

#endif

std::unique_ptr<Gmac::State> make_gmac(const Gmac::Key& key) {
#if defined(__x86_64__)
  if (has_wide_carryless()) return std::make_unique<WideGmac>(key);
#endif
  return std::make_unique<PlainGmac>(key);
}

}  // namespace

Gmac::Gmac(const Key& key) : state_(make_gmac(key)) {}
Gmac::~Gmac() = default;
Gmac::Gmac(Gmac&&) noexcept = default;
Gmac& Gmac::operator=(Gmac&&) noexcept = default;

void Gmac::begin(uint64_t number) { state_->begin(number); }
void Gmac::update(std::span<const std::byte> bytes) { state_->update(bytes); }
Gmac::Tag Gmac::finish() { return state_->finish(); }

}  // namespace poseidon
