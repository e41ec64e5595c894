#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <utility>

namespace poseidon {

/// A block of memory and the function that releases it. Move-only.
class Buffer {
 public:
  /// Returns memory to its allocator.
  using Release = std::function<void(void* data, size_t bytes)>;

  Buffer() = default;
  /// Allocates host memory: 64-byte aligned and zeroed. Buffers of 8 MiB or more use huge pages.
  /// Allocates nothing for 0 bytes. Throws OutOfMemory; its message contains `purpose`, for example
  /// "gradients".
  explicit Buffer(size_t bytes, std::string_view purpose = "a buffer");
  /// Owns memory that a device allocated.
  Buffer(void* data, size_t bytes, Release release)
      : data_(data), bytes_(bytes), release_(std::move(release)) {}
  ~Buffer() {
    if (data_ != nullptr) release_(data_, bytes_);
  }
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)),
        release_(std::move(other.release_)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(release_, other.release_);
    return *this;
  }

  size_t bytes() const { return bytes_; }
  void* data() const { return data_; }
  template <class T>
  std::span<T> as() const {
    return {static_cast<T*>(data_), bytes_ / sizeof(T)};
  }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
  Release release_;
};

}  // namespace poseidon
