#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "core/buffer.h"

namespace poseidon::cuda {

/// Allocates small buffers as parts of slabs, because CUDA takes 0.1 to 1 ms for each allocation of
/// pinned memory. A released part is not used again. A slab is released with the last of its parts.
/// Buffers of more than kLargestPart bytes are separate allocations. Used by one thread; any thread
/// may release.
class SlabMemory {
 public:
  static constexpr size_t kSlabBytes = size_t{8} << 20;
  static constexpr size_t kLargestPart = size_t{2} << 20;

  /// Allocates zeroed memory, aligned to kAlignment.
  using Allocate = std::function<Buffer(size_t bytes, std::string_view purpose)>;

  /// `wait` is called before the release of a part, and waits for the work that may use the part.
  SlabMemory(Allocate allocate, std::function<void()> wait)
      : allocate_(std::move(allocate)), wait_(std::move(wait)) {}

  /// Allocates zeroed memory. Passes on the exceptions of Allocate.
  Buffer allocate(size_t bytes, std::string_view purpose);

 private:
  static constexpr size_t kAlignment = 256;

  const Allocate allocate_;
  const std::function<void()> wait_;
  std::shared_ptr<Buffer> slab_;  ///< the latest slab; owned by this object and its parts
  size_t used_ = 0;               ///< bytes of the latest slab
};

}  // namespace poseidon::cuda
