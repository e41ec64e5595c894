#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/gmac.h"

/// A seal (checksum or authentication code) shows a receiver that a frame arrived unchanged. The
/// format: docs/wire-format.md.
namespace poseidon::comm {

/// Computes the seals of all frames of one connection and direction, in their order.
class FrameSeal {
 public:
  virtual ~FrameSeal() = default;
  /// The seal's name in messages: "checksum".
  virtual const char* name() const = 0;
  /// Returns the seal of the next header. `bytes` are the header's bytes before the seal.
  virtual uint64_t of_header(std::span<const std::byte> bytes) = 0;
  /// Adds bytes of the next body.
  virtual void add(std::span<const std::byte> bytes) = 0;
  /// Returns the seal of the body whose bytes were added, and starts the next body.
  virtual uint64_t of_body() = 0;
};

/// CRC-32C: detects transmission faults, but not forgeries.
class ChecksumSeal final : public FrameSeal {
 public:
  const char* name() const override { return "checksum"; }
  uint64_t of_header(std::span<const std::byte> bytes) override;
  void add(std::span<const std::byte> bytes) override;
  uint64_t of_body() override;

 private:
  uint32_t body_ = 0;
};

/// The first 8 bytes of AES-256-GMAC, with a separate nonce for each header and each body. Without
/// the key, an attacker cannot change, forge, repeat, omit or swap frames unnoticed.
class KeyedSeal final : public FrameSeal {
 public:
  explicit KeyedSeal(const Gmac::Key& key) : gmac_(key) {}
  const char* name() const override { return "authentication code"; }
  uint64_t of_header(std::span<const std::byte> bytes) override;
  void add(std::span<const std::byte> bytes) override;
  uint64_t of_body() override;

 private:
  uint64_t finish();

  Gmac gmac_;
  uint64_t headers_ = 0, bodies_ = 0;  ///< counts of sealed headers and bodies
  bool in_body_ = false;
};

}  // namespace poseidon::comm
