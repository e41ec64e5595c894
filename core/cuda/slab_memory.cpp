#include "core/cuda/slab_memory.h"

namespace poseidon::cuda {

Buffer SlabMemory::allocate(size_t bytes, std::string_view purpose) {
  if (bytes > kLargestPart) return allocate_(bytes, purpose);
  if (slab_ == nullptr || bytes > kSlabBytes - used_) {
    slab_ = std::make_shared<Buffer>(allocate_(kSlabBytes, purpose));
    used_ = 0;
  }
  std::byte* part = slab_->as<std::byte>().data() + used_;
  used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return Buffer(part, bytes, [slab = slab_, wait = wait_](void*, size_t) { wait(); });
}

}  // namespace poseidon::cuda
