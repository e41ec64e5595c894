#include "core/secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "core/error.h"

namespace poseidon {

namespace {

const unsigned char* octets_of(std::span<const std::byte> bytes) {
  // OpenSSL reads a null pointer as "no key yet", even if the length is 0.
  static constexpr unsigned char kNothing = 0;
  return bytes.empty() ? &kNothing : reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace

Hmac hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> message) {
  Hmac out{};
  unsigned length = 0;
  const unsigned char* made =
      HMAC(EVP_sha256(), octets_of(key), static_cast<int>(key.size()), octets_of(message),
           message.size(), reinterpret_cast<unsigned char*>(out.data()), &length);
  if (made == nullptr || length != out.size())
    throw RunError("HMAC-SHA256 is not available in this OpenSSL");
  return out;
}

bool equal_in_constant_time(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && CRYPTO_memcmp(octets_of(a), octets_of(b), a.size()) == 0;
}

void fill_with_random_bytes(std::span<std::byte> out) {
  if (RAND_bytes(reinterpret_cast<unsigned char*>(out.data()), static_cast<int>(out.size())) != 1)
    throw RunError("OpenSSL's random generator returned no bytes");
}

}  // namespace poseidon
