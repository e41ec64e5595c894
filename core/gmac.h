#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace poseidon {

/// AES-256-GMAC (NIST SP 800-38D), by which whoever knows the key can tell whether bytes were
/// changed. Messages follow one another, each with a number of its own. The nonce is that number in
/// 8 bytes, little-endian, behind 4 of zero, and must never be used twice with a key.
class Gmac {
 public:
  using Key = std::array<std::byte, 32>;
  using Tag = std::array<std::byte, 16>;

  /// Throws RunError when OpenSSL has no AES-256-GCM.
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
