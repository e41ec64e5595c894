#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "core/cuda/driver.h"

namespace poseidon::cuda {

/// Brings values from memory of the host that a device's work cannot reach: a piece at a time
/// through a few pieces of staging memory, so that the host need not wait for the copy. Blocks
/// while all of them are on their way. Used by the compute thread.
class UploadRing {
 public:
  explicit UploadRing(Driver& driver) : driver_(driver) {}

  /// `host` may be reused at once.
  void write(Stream stream, std::span<const std::byte> host, std::byte* to);

 private:
  static constexpr size_t kPieceBytes = size_t{4} << 20;

  struct Piece {
    Buffer memory;
    std::shared_ptr<const Mark> copied;  ///< null: it was never used
  };

  void write_piece(Stream stream, std::span<const std::byte> host, std::byte* to);

  Driver& driver_;
  std::array<Piece, 4> pieces_;
  size_t next_ = 0;
};

}  // namespace poseidon::cuda
