#pragma once

#include <algorithm>
#include <bit>
#include <span>

#include "layers/cuda/map.cuh"

/// Concatenates channels-last tensors along their channels, or splits such a concatenation. The
/// concatenated tensor is called the whole. A row is the channels of one position.
namespace poseidon::layers::cuda {

/// A unit: the bytes that a thread copies at once.
template <size_t kBytes>
struct alignas(kBytes) CopyUnit {
  std::byte bytes[kBytes];
};

/// Limit on the parts that one kernel joins or splits.
constexpr size_t kPartsAtOnce = 8;

/// A part of the whole tensor: a range of its channels. A part has one row of channels for each
/// position.
struct ChannelPart {
  std::byte* data = nullptr;    ///< null: kJoin writes zeros, kSplit skips the part
  uint32_t begin = 0, end = 0;  ///< byte range in each row of the whole
};

enum class PartsDirection : uint8_t { kJoin, kSplit };

/// Copies between the whole tensor and some of its parts. The channel ranges of the parts are
/// adjacent and in order. Each thread copies one unit of the whole.
template <size_t kBytes, PartsDirection kDirection>
struct PartsKernel {
  static constexpr const char* kName = kDirection == PartsDirection::kJoin ? "join" : "split";
  static constexpr uint32_t kThreads = 256;

  std::byte* whole;
  int64_t rows;
  uint32_t row_bytes;  ///< bytes of a row of the whole
  uint32_t parts;
  ChannelPart part[kPartsAtOnce];

  uint32_t first() const { return part[0].begin; }
  uint32_t units() const { return (part[parts - 1].end - first()) / kBytes; }

  void visit(MemoryVisitor& visitor) const {
    const auto all = std::span(part).first(parts);
    constexpr bool joins = kDirection == PartsDirection::kJoin;
    for (const ChannelPart& p : all)
      if (p.data != nullptr)
        visit_one(visitor, p.data, static_cast<size_t>(rows) * (p.end - p.begin), !joins);
    const bool whole_rows =
        units() * kBytes == row_bytes &&
        (joins || std::ranges::all_of(all, [](const auto& p) { return p.data != nullptr; }));
    if (whole_rows) {
      visit_one(visitor, whole, static_cast<size_t>(rows) * row_bytes, joins);
      return;
    }
    for (const ChannelPart& p : all)
      for (int64_t row = 0; row < rows && (p.data != nullptr || joins); ++row)
        visit_one(visitor, whole + row * row_bytes + p.begin, p.end - p.begin, joins);
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const uint32_t across = (part[parts - 1].end - part[0].begin) / kBytes;
    const int64_t index = int64_t{thread.block()} * kThreads + thread.thread();
    if (index >= rows * across) return;
    const uint32_t row = static_cast<uint32_t>(index) / across;
    const uint32_t column =
        part[0].begin + static_cast<uint32_t>(index) % across * static_cast<uint32_t>(kBytes);
    ChannelPart mine = part[0];
    for (uint32_t k = 1; k < parts; ++k)
      if (column >= part[k].begin) mine = part[k];
    auto* there = as_unit(whole + int64_t{row} * row_bytes + column);
    if (mine.data == nullptr) {
      if constexpr (kDirection == PartsDirection::kJoin) *there = {};
      return;
    }
    auto* here = as_unit(mine.data + int64_t{row} * (mine.end - mine.begin) + column - mine.begin);
    if constexpr (kDirection == PartsDirection::kJoin)
      *there = *here;
    else
      *here = *there;
  }

 private:
  static void visit_one(MemoryVisitor& visitor, const std::byte* data, size_t bytes, bool write) {
    if (write)
      visitor.writes(data, bytes);
    else
      visitor.reads(data, bytes);
  }
  POSEIDON_DEVICE static CopyUnit<kBytes>* as_unit(std::byte* data) {
    return reinterpret_cast<CopyUnit<kBytes>*>(data);
  }
};

/// Returns the bytes of the largest unit: the largest power of two, at most a pack (16 bytes), that
/// divides `row_bytes` and the bounds of all parts.
inline size_t unit_bytes(std::span<const ChannelPart> parts, size_t row_bytes) {
  size_t all = row_bytes | poseidon::cuda::kPackBytes;
  for (const ChannelPart& part : parts) all |= part.begin | part.end;
  return size_t{1} << std::countr_zero(all);
}

template <class Use>
void with_copy_unit_of(size_t bytes, const Use& use) {
  switch (bytes) {
    case 16: return use(std::integral_constant<size_t, 16>{});
    case 8: return use(std::integral_constant<size_t, 8>{});
    case 4: return use(std::integral_constant<size_t, 4>{});
    default: return use(std::integral_constant<size_t, 2>{});
  }
}

inline uint32_t bytes_of_channels(const Tensor& tensor) {
  return static_cast<uint32_t>(tensor.shape.channels()) *
         static_cast<uint32_t>(bytes_of(tensor.format.type));
}

/// Issues the copies between `whole`, a channels-last tensor, and its parts. The channel ranges of
/// the parts are adjacent and in order.
template <PartsDirection kDirection>
void copy_parts(CudaDevice& device, std::span<const ChannelPart> parts, const Tensor& whole) {
  const uint32_t row_bytes = bytes_of_channels(whole);
  with_copy_unit_of(unit_bytes(parts, row_bytes), [&](auto unit) {
    for (size_t done = 0; done < parts.size(); done += kPartsAtOnce) {
      const auto some = parts.subspan(done, std::min(kPartsAtOnce, parts.size() - done));
      PartsKernel<unit, kDirection> kernel{.whole = whole.as<std::byte>(),
                                           .rows = whole.shape.samples() * whole.shape.area(),
                                           .row_bytes = row_bytes,
                                           .parts = static_cast<uint32_t>(some.size()),
                                           .part = {}};
      std::ranges::copy(some, kernel.part);
      device.launch_for(kernel.rows * kernel.units(), kernel);
    }
  });
}

}  // namespace poseidon::layers::cuda
