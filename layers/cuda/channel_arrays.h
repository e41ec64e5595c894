#pragma once

#include <cstddef>
#include <cstdint>

namespace poseidon::layers::cuda {

/// Allocates arrays with one float for each channel, one after another, from a block of memory.
class ChannelArrays {
 public:
  ChannelArrays(std::byte* memory, int64_t channels)
      : next_(reinterpret_cast<float*>(memory)), length_(padded(channels)) {}

  float* allocate() {
    float* array = next_;
    next_ += length_;
    return array;
  }

  static size_t bytes(int64_t channels, int64_t arrays) {
    return static_cast<size_t>(padded(channels) * arrays) * sizeof(float);
  }

 private:
  /// Length of an array in floats, rounded up so that each array begins at a multiple of 64 bytes.
  static int64_t padded(int64_t channels) { return (channels + 15) / 16 * 16; }

  float* next_;
  int64_t length_;
};

}  // namespace poseidon::layers::cuda
