#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "comm/wire/codec.h"
#include "comm/wire/sparse.h"
#include "comm/wire/wire.h"
#include "core/error.h"

/// Chunks, factors and tensors travel in slices; the last slice may be shorter. A slice of a tensor
/// has kSliceBytes bytes. A slice of a chunk or factor has kSliceElements elements in each codec.
namespace poseidon::comm {

inline uint64_t slices_of(uint64_t bytes) { return (bytes + kSliceBytes - 1) / kSliceBytes; }

inline uint64_t slice_length(uint64_t bytes, uint64_t slice) {
  return std::min(kSliceBytes, bytes - slice * kSliceBytes);
}

/// Whether a frame is exactly one slice of a tensor of `bytes` bytes.
inline bool is_slice_of(const FrameHeader& header, uint64_t bytes) {
  return header.offset % kSliceBytes == 0 && header.offset < bytes &&
         header.length == slice_length(bytes, header.offset / kSliceBytes);
}

inline constexpr uint64_t kSliceElements = kSliceBytes / sizeof(float);

/// The slices of a chunk or factor. FrameHeader::offset of a slice is the index of its first
/// element.
class EncodedSlices {
 public:
  EncodedSlices(const Codec& codec, uint64_t elements) : codec_(&codec), elements_(elements) {}

  const Codec& codec() const { return *codec_; }
  /// Bytes of all slices.
  uint64_t bytes() const { return codec_->bytes(elements_); }
  uint64_t count() const { return (elements_ + kSliceElements - 1) / kSliceElements; }
  static uint64_t index_of(const FrameHeader& header) { return header.offset / kSliceElements; }
  uint64_t elements_of(const FrameHeader& header) const {
    return std::min(kSliceElements, elements_ - header.offset);
  }
  /// Sets offset and length of a header to those of a slice. If the length depends on the values,
  /// it is a usual length.
  void place(uint64_t slice, FrameHeader& header) const {
    header.offset = slice * kSliceElements;
    header.length = codec_->bytes(elements_of(header));
  }
  /// The bytes before a slice. The length of the encoding must not depend on the values.
  uint64_t bytes_before(const FrameHeader& header) const { return codec_->bytes(header.offset); }
  /// Whether a frame is exactly one of the slices.
  bool has(const FrameHeader& header) const {
    return begins_at(header) && codec_->permits(header.length, elements_of(header));
  }
  /// Whether a frame may be exactly one of the slices, in the sparse form. The codec must encode
  /// each value alone.
  bool has_sparse(const FrameHeader& header) const {
    return begins_at(header) && may_be_sparse(header.length, elements_of(header), codec_->bytes(1));
  }
  /// The fault of a frame that is none of the slices of `what`, such as "chunk 3".
  std::string fault_of(const FrameHeader& header, const std::string& what) const {
    return text("sent ", header.length, " bytes from element ", header.offset, " of ", what,
                ", expected one slice of its ", elements_, " elements");
  }

 private:
  bool begins_at(const FrameHeader& header) const {
    return header.offset % kSliceElements == 0 && header.offset < elements_;
  }

  const Codec* codec_;
  uint64_t elements_;
};

/// The most slices of one chunk: SliceSet has one bit for each.
inline constexpr uint64_t kMaxSlices = 64;
/// The most bytes of one chunk in fp32.
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
