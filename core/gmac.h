#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace poseidon {

/// AES-256-GMAC (NIST SP 800-38D), a message authentication code: a receiver that has the key
/// detects changed bytes. Each message has a number, which must never be used twice with one key.
/// The nonce is 4 zero bytes and then this number in 8 bytes, little-endian. For each message, call
/// begin(), update() any number of times, and finish().
class Gmac {
 public:
  using Key = std::array<std::byte, 32>;
  using Tag = std::array<std::byte, 16>;

  /// Throws RunError if OpenSSL has no AES-256-GCM.
  explicit Gmac(const Key& key);
  ~Gmac();
  Gmac(Gmac&&) noexcept;
  Gmac& operator=(Gmac&&) noexcept;

  void begin(uint64_t number);
  void update(std::span<const std::byte> bytes);
  Tag finish();

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace poseidon
