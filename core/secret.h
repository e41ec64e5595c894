#pragma once

#include <array>
#include <cstddef>
#include <span>

/// What is needed to prove that one knows a secret without revealing it.
namespace poseidon {

using Hmac = std::array<std::byte, 32>;

/// HMAC-SHA256 (RFC 2104). Throws RunError when OpenSSL has none.
Hmac hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> message);

/// Whether both are the same bytes, in a time that does not reveal where they differ.
bool equal_in_constant_time(std::span<const std::byte> a, std::span<const std::byte> b);

/// Fills `out` from the system's cryptographic generator. Throws RunError when it fails.
void fill_with_random_bytes(std::span<std::byte> out);

}  // namespace poseidon
