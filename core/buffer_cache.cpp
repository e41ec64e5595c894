#include "core/buffer_cache.h"

#include <algorithm>

namespace poseidon {

Buffer BufferCache::allocate(size_t bytes, std::string_view purpose) {
  const auto found = std::ranges::find(*kept_, bytes, &Buffer::bytes);
  auto buffer = std::make_shared<Buffer>();
  if (found == kept_->end()) {
    *buffer = allocate_(bytes, purpose);
  } else {
    *buffer = std::move(*found);
    kept_->erase(found);
  }
  return Buffer(buffer->data(), bytes, [buffer, kept = std::weak_ptr(kept_)](void*, size_t) {
    if (const auto list = kept.lock()) list->push_back(std::move(*buffer));
  });
}

}  // namespace poseidon
