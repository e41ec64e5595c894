#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "core/buffer.h"

namespace poseidon {

/// Allocates buffers, and keeps released buffers for later requests of the same size. A kept buffer
/// keeps its contents. The destructor releases the kept buffers; buffers in use may outlive the
/// cache. Used by one thread.
class BufferCache {
 public:
  using Allocate = std::function<Buffer(size_t bytes, std::string_view purpose)>;

  explicit BufferCache(Allocate allocate) : allocate_(std::move(allocate)) {}

  /// Passes on the exceptions of Allocate.
  Buffer allocate(size_t bytes, std::string_view purpose);

 private:
  const Allocate allocate_;
  const std::shared_ptr<std::vector<Buffer>> kept_ = std::make_shared<std::vector<Buffer>>();
};

}  // namespace poseidon
