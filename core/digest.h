#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace poseidon {

/// SHA-256 of a stream of bytes.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void update(std::span<const std::byte> bytes);
  /// The digest as 64 lower-case hexadecimal digits. Call hex() only once, after all update()
  /// calls.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Two lower-case hexadecimal digits for each byte.
std::string hexadecimal(std::span<const std::byte> bytes);

std::string sha256_hex(std::span<const std::byte> bytes);

/// CRC-32C (Castagnoli polynomial, RFC 3720), continued from `crc` (0 to start).
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t crc = 0);

}  // namespace poseidon
