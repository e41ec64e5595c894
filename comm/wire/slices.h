#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "comm/wire/wire.h"

/// Chunks, factors and tensors travel in slices of kSliceBytes; the last slice may be shorter.
namespace poseidon::comm {

inline uint64_t slices_of(uint64_t bytes) { return (bytes + kSliceBytes - 1) / kSliceBytes; }

inline uint64_t slice_length(uint64_t bytes, uint64_t slice) {
  return std::min(kSliceBytes, bytes - slice * kSliceBytes);
}

/// Whether a frame is exactly one slice of a chunk, factor or tensor of `bytes` bytes.
inline bool is_slice_of(const FrameHeader& header, uint64_t bytes) {
  return header.offset % kSliceBytes == 0 && header.offset < bytes &&
         header.length == slice_length(bytes, header.offset / kSliceBytes);
}

/// The most slices of one chunk: SliceSet has one bit for each.
inline constexpr uint64_t kMaxSlices = 64;
inline constexpr uint64_t kMaxChunkBytes = kMaxSlices * kSliceBytes;

/// The set of slices of one chunk that have arrived.
class SliceSet {
 public:
  bool has(uint64_t slice) const { return (bits_ >> slice & 1) != 0; }
  void add(uint64_t slice) { bits_ |= uint64_t{1} << slice; }
  void clear() { bits_ = 0; }
  bool complete(uint64_t slices) const {
    return bits_ == (slices == kMaxSlices ? ~uint64_t{0} : (uint64_t{1} << slices) - 1);
  }

 private:
  uint64_t bits_ = 0;
};

}  // namespace poseidon::comm
