#include "comm/wire/kernels/block_kernels.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "comm/wire/integer_blocks.h"
#include "comm/wire/kernels/block_header.h"
#include "comm/wire/kernels/block_words.h"

// All loops have kBlockElements iterations, so that the compiler needs no code for the rest of a
// vector. A shorter last block is copied to memory for a full block.
namespace poseidon::comm {

namespace {

constexpr uint64_t kMostBlockBytes = 1 + 8 * kBlockElements;

/// The block at `block`, or a copy with zeros after `count` elements if there are fewer than
/// kBlockElements.
class FullBlock {
 public:
  FullBlock(const std::byte* block, uint64_t count) : block_(block), header_(header_at(block)) {
    if (count == kBlockElements) return;
    std::memset(copy_, 0, sizeof copy_);
    std::memcpy(copy_, block, header_.bytes(count));
    block_ = copy_;
  }
  FullBlock(const FullBlock&) = delete;
  FullBlock& operator=(const FullBlock&) = delete;

  const BlockHeader& header() const { return header_; }
  const std::byte* integers() const { return block_ + 1; }

 private:
  const std::byte* block_;
  BlockHeader header_;
  std::byte copy_[kMostBlockBytes];
};

/// Calls `body` with a zero of the type of integers that have 2^log_width bytes, at most those of
/// kLane.
template <class Lane, class Body>
[[gnu::always_inline]] inline void with_integer(unsigned log_width, const Body& body) {
  if (log_width == 0) return body(int8_t{});
  if (log_width == 1) return body(int16_t{});
  if constexpr (sizeof(Lane) == 8)
    if (log_width == 3) return body(int64_t{});
  body(int32_t{});
}

template <class Integer>
[[gnu::always_inline]] inline Integer integer_at(const std::byte* integers, uint64_t k) {
  Integer q;
  std::memcpy(&q, integers + k * sizeof(Integer), sizeof(Integer));
  return q;
}

/// value * 2^shift. Unsigned, because the integers of a hostile peer may overflow.
template <class Lane>
[[gnu::always_inline]] inline Lane shifted_left(Lane value, unsigned shift) {
  return static_cast<Lane>(static_cast<std::make_unsigned_t<Lane>>(value) << shift);
}

/// Rounds `scaled`, integers in units of 2^-16, to `out`.
void round_scaled(const int32_t* __restrict scaled, const BlockWords& random,
                  int8_t* __restrict out) {
  for (uint64_t w = 0; w < 4; ++w)
    for (uint64_t j = 0; j < kPhiloxBlocks; ++j) {
      const uint32_t word = random.words[w][j];
      const uint64_t k = 2 * kPhiloxBlocks * w + j;
      out[k] = static_cast<int8_t>((scaled[k] + static_cast<int32_t>(word & 0xffff)) >> 16);
      out[k + kPhiloxBlocks] =
          static_cast<int8_t>((scaled[k + kPhiloxBlocks] + static_cast<int32_t>(word >> 16)) >> 16);
    }
}

void write_zeros(BlockHeader header, uint64_t count, std::byte* block) {
  *block = header.encoded();
  std::memset(block + 1, 0, count);
}

void write_rounded(const int32_t* scaled, const BlockWords& random, unsigned code, uint64_t count,
                   std::byte* block) {
  alignas(64) int8_t integers[kBlockElements];
  round_scaled(scaled, random, integers);
  // Only integers of the least exponent can all round to zero. In another block one is at least 63.
  const bool zero =
      code == 0 && std::all_of(integers, integers + count, [](int8_t q) { return q == 0; });
  *block = (zero ? kZeroBlock : BlockHeader{code, 0}).encoded();
  std::memcpy(block + 1, integers, count);
}

void encode_block(const float* values, const BlockWords& random, uint64_t count, std::byte* block) {
  uint32_t greatest = 0;  // bits of the greatest absolute value; those of NaN are above infinity's
  for (uint64_t k = 0; k < kBlockElements; ++k)
    greatest = std::max(greatest, std::bit_cast<uint32_t>(values[k]) & 0x7fffffff);
  static_assert(kGreatestExponent == 8);
  if (greatest > std::bit_cast<uint32_t>(127 * 0x1p8f))
    return write_zeros(kNotFiniteBlock, count, block);
  // 127 is 0x1.fcp6. Adding the mantissas above 0x1.fc carries into the exponent exactly for these.
  const int exponent =
      std::max(static_cast<int>((greatest + 0x1ffff) >> 23) - 127 - 6, kLeastExponent);
  const float scale = std::bit_cast<float>(static_cast<uint32_t>(127 + 16 - exponent) << 23);
  alignas(64) int32_t scaled[kBlockElements];
  for (uint64_t k = 0; k < kBlockElements; ++k) scaled[k] = static_cast<int32_t>(values[k] * scale);
  write_rounded(scaled, random, static_cast<unsigned>(exponent - kLeastExponent), count, block);
}

void encode(std::span<const float> values, uint64_t first, const RandomStream& random,
            std::byte* blocks) {
  const BlockWordSource source(random);
  BlockWords words;
  for (uint64_t done = 0; done < values.size(); done += kBlockElements) {
    const uint64_t count = std::min(kBlockElements, values.size() - done);
    source.words((first + done) / kBlockElements * kPhiloxBlocks, words);
    if (count == kBlockElements) {
      encode_block(values.data() + done, words, count, blocks);
    } else {
      float full[kBlockElements] = {};
      std::memcpy(full, values.data() + done, count * sizeof(float));
      encode_block(full, words, count, blocks);
    }
    blocks += 1 + count;
  }
}

/// Returns the bytes of the block.
uint64_t write_not_finite(uint64_t count, std::byte* block) {
  write_zeros(kNotFiniteBlock, count, block);
  return kNotFiniteBlock.bytes(count);
}

/// Writes the integers of a sum. Returns the bytes of the block.
template <class Lane>
uint64_t write_sum(const Lane* __restrict sums, unsigned code, uint64_t count, std::byte* block) {
  using Bits = std::make_unsigned_t<Lane>;
  Bits used = 0;  // bit 0: the sign; all bits are clear only for zero
  for (uint64_t k = 0; k < kBlockElements; ++k)
    used |= static_cast<Bits>(sums[k]) << 1 ^ static_cast<Bits>(sums[k] >> (8 * sizeof(Lane) - 1));
  const uint64_t bits = used;
  const unsigned log_width = bits >> 8 == 0 ? 0 : bits >> 16 == 0 ? 1 : bits >> 32 == 0 ? 2 : 3;
  const BlockHeader header{bits == 0 ? kZeroBlock.code : code, log_width};
  *block = header.encoded();
  with_integer<Lane>(log_width, [&](auto zero) {
    using Integer = decltype(zero);
    alignas(64) Integer integers[kBlockElements];
    for (uint64_t k = 0; k < kBlockElements; ++k) integers[k] = static_cast<Integer>(sums[k]);
    std::memcpy(block + 1, integers, count * sizeof(Integer));
  });
  return header.bytes(count);
}

/// Adds two blocks in integers of type Lane.
template <class Lane>
uint64_t add_in(const FullBlock& a, const FullBlock& b, unsigned code, uint64_t count,
                std::byte* sum) {
  using Bits = std::make_unsigned_t<Lane>;
  alignas(64) Lane sums[kBlockElements];
  Bits lost = 0, carried = 0;  // bits that a shift dropped; the highest bit: an addition overflowed
  const auto add_to = [&](const FullBlock& block, const auto& start) {
    const unsigned shift = block.header().code - code;
    with_integer<Lane>(block.header().log_width, [&](auto zero) {
      for (uint64_t k = 0; k < kBlockElements; ++k) {
        const Lane q = integer_at<decltype(zero)>(block.integers(), k);
        const Lane old = start(k), added = shifted_left(q, shift);
        sums[k] = static_cast<Lane>(static_cast<Bits>(old) + static_cast<Bits>(added));
        if constexpr (sizeof(Lane) == 8) {
          lost |= static_cast<Bits>((added >> shift) ^ q);
          carried |= static_cast<Bits>((old ^ sums[k]) & (added ^ sums[k]));
        }
      }
    });
  };
  add_to(a, [](uint64_t) { return Lane{0}; });
  add_to(b, [&sums](uint64_t k) { return sums[k]; });
  if (lost != 0 || carried >> (8 * sizeof(Lane) - 1) != 0) return write_not_finite(count, sum);
  return write_sum(sums, code, count, sum);
}

uint64_t add_block(const FullBlock& a, const FullBlock& b, uint64_t count, std::byte* sum) {
  if (!a.header().finite() || !b.header().finite()) return write_not_finite(count, sum);
  const unsigned code = std::min(a.header().code, b.header().code);
  // Bits of the integers with sign, in units of the sum.
  const auto bits = [code](const BlockHeader& header) {
    return (8U << header.log_width) + header.code - code;
  };
  const bool narrow = std::max(bits(a.header()), bits(b.header())) < 32;
  return narrow ? add_in<int32_t>(a, b, code, count, sum) : add_in<int64_t>(a, b, code, count, sum);
}

uint64_t add(const std::byte* a, const std::byte* b, uint64_t elements, std::byte* sum) {
  const std::byte* const begin = sum;
  for (uint64_t done = 0; done < elements; done += kBlockElements) {
    const uint64_t count = std::min(kBlockElements, elements - done);
    const FullBlock block_a(a, count), block_b(b, count);
    sum += add_block(block_a, block_b, count, sum);
    a += block_a.header().bytes(count);
    b += block_b.header().bytes(count);
  }
  return static_cast<uint64_t>(sum - begin);
}

/// The least exponent e for which `greatest` > 0 is at most 127 * 2^e.
int exponent_for(uint64_t greatest) {
  const int exponent = static_cast<int>(std::bit_width(greatest)) - 7;
  return exponent > 0 && greatest > uint64_t{127} << exponent ? exponent + 1 : exponent;
}

template <class Lane>
void round_in(const FullBlock& block, const BlockWords& random, uint64_t count,
              std::byte* rounded) {
  using Bits = std::make_unsigned_t<Lane>;
  alignas(64) Lane integers[kBlockElements];
  with_integer<Lane>(block.header().log_width, [&](auto zero) {
    for (uint64_t k = 0; k < kBlockElements; ++k)
      integers[k] = integer_at<decltype(zero)>(block.integers(), k);
  });
  Bits greatest = 0;
  for (uint64_t k = 0; k < kBlockElements; ++k) {
    const Bits q = static_cast<Bits>(integers[k]);
    greatest = std::max(greatest, integers[k] < 0 ? Bits{0} - q : q);
  }
  if (greatest == 0) return write_zeros(kZeroBlock, count, rounded);
  const int old_code = static_cast<int>(block.header().code);
  const int code = std::max(old_code + exponent_for(greatest), 0);
  if (code >= static_cast<int>(kNotFinite)) return write_zeros(kNotFiniteBlock, count, rounded);
  alignas(64) int32_t scaled[kBlockElements];
  const int shift = old_code - code + 16;
  // Bits below 2^-16 cannot change the result of adding random bits of 16, so they are dropped.
  if (shift >= 0)
    for (uint64_t k = 0; k < kBlockElements; ++k)
      scaled[k] = static_cast<int32_t>(shifted_left(integers[k], static_cast<unsigned>(shift)));
  else
    for (uint64_t k = 0; k < kBlockElements; ++k)
      scaled[k] = static_cast<int32_t>(integers[k] >> -shift);
  write_rounded(scaled, random, static_cast<unsigned>(code), count, rounded);
}

void round(const std::byte* blocks, uint64_t elements, uint64_t first, const RandomStream& random,
           std::byte* rounded) {
  const BlockWordSource source(random);
  BlockWords words;
  for (uint64_t done = 0; done < elements; done += kBlockElements) {
    const uint64_t count = std::min(kBlockElements, elements - done);
    const FullBlock block(blocks, count);
    source.words((first + done) / kBlockElements * kPhiloxBlocks, words);
    if (!block.header().finite())
      write_zeros(kNotFiniteBlock, count, rounded);
    else if (block.header().log_width == 3)
      round_in<int64_t>(block, words, count, rounded);
    else
      round_in<int32_t>(block, words, count, rounded);
    blocks += block.header().bytes(count);
    rounded += 1 + count;
  }
}

/// The float 2^exponent; NaN for a block that is not finite.
float unit_of(const BlockHeader& header) {
  if (!header.finite()) return std::numeric_limits<float>::quiet_NaN();
  return std::bit_cast<float>(
      static_cast<uint32_t>(127 + kLeastExponent + static_cast<int>(header.code)) << 23);
}

void decode_block(const FullBlock& block, float* __restrict values) {
  const float unit = unit_of(block.header());
  with_integer<int64_t>(block.header().log_width, [&](auto zero) {
    for (uint64_t k = 0; k < kBlockElements; ++k)
      values[k] = static_cast<float>(integer_at<decltype(zero)>(block.integers(), k)) * unit;
  });
}

void decode(const std::byte* blocks, std::span<float> values) {
  for (uint64_t done = 0; done < values.size(); done += kBlockElements) {
    const uint64_t count = std::min(kBlockElements, values.size() - done);
    const FullBlock block(blocks, count);
    if (count == kBlockElements) {
      decode_block(block, values.data() + done);
    } else {
      float full[kBlockElements];
      decode_block(block, full);
      std::memcpy(values.data() + done, full, count * sizeof(float));
    }
    blocks += block.header().bytes(count);
  }
}

}  // namespace

namespace POSEIDON_ISA {
BlockKernels block_kernels() { return {encode, add, round, decode}; }
}  // namespace POSEIDON_ISA

}  // namespace poseidon::comm
