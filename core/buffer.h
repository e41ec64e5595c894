#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

namespace poseidon {

/// Host memory, 64-byte aligned, zeroed, backed by huge pages where it is large. Move-only.
class Buffer {
 public:
  Buffer() = default;
  /// Throws OutOfMemory when the memory cannot be had, which says what it is for: "gradients".
  explicit Buffer(size_t bytes, std::string_view purpose = "a buffer");
  ~Buffer();
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
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
};

}  // namespace poseidon
