#include "comm/wire/integer_blocks.h"

#include <algorithm>

#include "comm/wire/kernels/block_header.h"
#include "comm/wire/kernels/wire_kernels.h"
#include "core/error.h"

namespace poseidon::comm {

void encode_blocks(std::span<const float> values, uint64_t first, const RandomStream& random,
                   std::byte* blocks) {
  check(first % kBlockElements == 0, "blocks are counted from the start of a tensor");
  wire_kernels().blocks.encode(values, first, random, blocks);
}

uint64_t add_blocks(const std::byte* a, const std::byte* b, uint64_t elements, std::byte* sum) {
  return wire_kernels().blocks.add(a, b, elements, sum);
}

void round_blocks(const std::byte* blocks, uint64_t elements, uint64_t first,
                  const RandomStream& random, std::byte* rounded) {
  check(first % kBlockElements == 0, "blocks are counted from the start of a tensor");
  wire_kernels().blocks.round(blocks, elements, first, random, rounded);
}

void decode_blocks(const std::byte* blocks, std::span<float> values) {
  wire_kernels().blocks.decode(blocks, values);
}

BlockCounts& BlockCounts::operator+=(const BlockCounts& more) {
  all += more.all;
  below += more.below;
  beyond += more.beyond;
  return *this;
}

BlockCounts count_blocks(const std::byte* blocks, uint64_t elements) {
  BlockCounts counts;
  for (uint64_t done = 0; done < elements; done += kBlockElements) {
    const BlockHeader header = header_at(blocks + bytes_of_blocks(done, 1));
    ++counts.all;
    if (!header.finite())
      ++counts.beyond;
    else if (header.code == 0)
      ++counts.below;
  }
  return counts;
}

std::optional<uint64_t> length_of_blocks(std::span<const std::byte> bytes, uint64_t elements) {
  uint64_t length = 0;
  for (uint64_t done = 0; done < elements; done += kBlockElements) {
    if (length >= bytes.size()) return std::nullopt;
    const BlockHeader header = header_at(bytes.data() + length);
    if (!header.finite() && header.log_width != 0) return std::nullopt;
    length += header.bytes(std::min(kBlockElements, elements - done));
  }
  if (length > bytes.size()) return std::nullopt;
  return length;
}

}  // namespace poseidon::comm
