#pragma once

#include <array>
#include <cstddef>
#include <span>

/// Functions to prove the knowledge of a secret without revealing it.
namespace poseidon {

using Hmac = std::array<std::byte, 32>;

/// HMAC-SHA256 (RFC 2104). Throws RunError if OpenSSL does not have it.
Hmac hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> message);

/// Whether `a` and `b` have the same bytes. The run time does not depend on the position of a
/// difference.
bool equal_in_constant_time(std::span<const std::byte> a, std::span<const std::byte> b);

/// Fills `out` with bytes of a cryptographic random generator (OpenSSL). Throws RunError if it
/// fails.
void fill_with_random_bytes(std::span<std::byte> out);

}  // namespace poseidon
