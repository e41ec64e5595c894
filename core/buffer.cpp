#include "core/buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "core/error.h"
#include "core/memory.h"

namespace poseidon {

namespace {

constexpr size_t kCacheLine = 64;
constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

Buffer::Buffer(size_t bytes, std::string_view purpose) : bytes_(bytes) {
  if (bytes == 0) return;
  // A huge page replaces 512 pages of 4 KiB, so memset() below causes fewer page faults.
  const size_t alignment = bytes >= 4 * kHugePage ? kHugePage : kCacheLine;
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  data_ = std::aligned_alloc(alignment, rounded);
  if (data_ == nullptr)
    throw OutOfMemory(text("out of memory: cannot allocate ", bytes_text(bytes), " for ", purpose));
  if (alignment == kHugePage) madvise(data_, rounded, MADV_HUGEPAGE);
  std::memset(data_, 0, rounded);
  release_ = [](void* data, size_t) { std::free(data); };
}

}  // namespace poseidon
