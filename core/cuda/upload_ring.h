#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "core/cuda/driver.h"

namespace poseidon::cuda {

/// Copies values to the device from host memory that the device cannot access. The values pass
/// through a ring of staging buffers, so the host does not wait for the copy to the device. write()
/// blocks only while the next buffer of the ring is in use. Called by the compute thread.
class UploadRing {
 public:
  explicit UploadRing(Driver& driver) : driver_(driver) {}

  /// Copies `host` to `to` in the order of `stream`. The caller may reuse `host` after the return.
  void write(Stream stream, std::span<const std::byte> host, std::byte* to);

 private:
  static constexpr size_t kPieceBytes = size_t{4} << 20;

  struct Piece {
    Buffer memory;
    std::shared_ptr<const StreamEvent> copied;  ///< null: never used
  };

  void write_piece(Stream stream, std::span<const std::byte> host, std::byte* to);

  Driver& driver_;
  std::array<Piece, 4> pieces_;
  size_t next_ = 0;
};

}  // namespace poseidon::cuda
