#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/gmac.h"

/// By what a receiver knows that a frame is as it was sent. The format: docs/wire-format.md.
namespace poseidon::comm {

/// Of the frames of one connection and direction, all of them, in their order.
class FrameSeal {
 public:
  virtual ~FrameSeal() = default;
  /// "checksum", as messages name it.
  virtual const char* name() const = 0;
  /// Of the next header, of its bytes before its own seal.
  virtual uint64_t of_header(std::span<const std::byte> bytes) = 0;
  /// More bytes of the next body.
  virtual void add(std::span<const std::byte> bytes) = 0;
  /// Of the next body, which has been added.
  virtual uint64_t of_body() = 0;
};

/// Finds faults, not forgeries: CRC-32C.
class ChecksumSeal final : public FrameSeal {
 public:
  const char* name() const override { return "checksum"; }
  uint64_t of_header(std::span<const std::byte> bytes) override;
  void add(std::span<const std::byte> bytes) override;
  uint64_t of_body() override;

 private:
  uint32_t body_ = 0;
};

/// Who does not know the key can neither change a frame nor make, repeat, leave out or exchange
/// one: the first 8 bytes of AES-256-GMAC, each header and each body under a number of its own.
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
  uint64_t headers_ = 0, bodies_ = 0;  ///< that are done
  bool in_body_ = false;
};

}  // namespace poseidon::comm
