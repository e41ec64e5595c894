#include "comm/wire/integer_blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace poseidon::comm {

namespace {

// The integers are stored as they lie in memory.
static_assert(std::endian::native == std::endian::little);

/// Words of random bits for one block. Element k uses 16 bits of the word [k / 64][k % 32], the
/// upper ones if k / 32 is odd.
struct BlockWords {
  alignas(64) uint32_t words[4][32];
};
using BlockIntegers = int64_t[kBlockElements];

/// Header byte of a block whose integers have 2^`log_width` bytes.
std::byte block_header(unsigned code, unsigned log_width) {
  return static_cast<std::byte>(code << 2 | log_width);
}
unsigned code_of(std::byte header) { return std::to_integer<unsigned>(header) >> 2; }
unsigned log_width_of(std::byte header) { return std::to_integer<unsigned>(header) & 3; }

constexpr unsigned kZeroBlock = kGreatestExponent - kLeastExponent;

BlockWords block_words(const RandomStream& random, uint64_t first) {
  BlockWords out;
  for (uint64_t j = 0; j < 32; ++j) {
    const PhiloxBlock block = random.at(first / kBlockElements * 32 + j);
    for (size_t w = 0; w < 4; ++w) out.words[w][j] = block[w];
  }
  return out;
}

int32_t random_bits(const BlockWords& random, uint64_t k) {
  const uint32_t word = random.words[k / 64][k % 32];
  return static_cast<int32_t>(k / 32 % 2 == 0 ? word & 0xffff : word >> 16);
}

/// Writes a block of one byte for each integer. `scaled` are the values in units of
/// 2^(`code` + kLeastExponent - 16). A block whose integers are all zero gets kGreatestExponent, so
/// that it never refines the grid of a sum.
void write_rounded(const int32_t* scaled, uint64_t count, const BlockWords& random, unsigned code,
                   std::byte* block) {
  bool zero = true;
  for (uint64_t k = 0; k < count; ++k) {
    const int32_t q = (scaled[k] + random_bits(random, k)) >> 16;
    block[1 + k] = static_cast<std::byte>(q);
    zero &= q == 0;
  }
  block[0] = block_header(zero ? kZeroBlock : code, 0);
}

void write_without_integers(unsigned code, uint64_t count, std::byte* block) {
  block[0] = block_header(code, 0);
  std::memset(block + 1, 0, count);
}

void encode_block(const float* values, uint64_t count, const BlockWords& random, std::byte* block) {
  uint32_t greatest = 0;  // bits of the greatest absolute value; those of NaN are above infinity's
  for (uint64_t k = 0; k < count; ++k)
    greatest = std::max(greatest, std::bit_cast<uint32_t>(values[k]) & 0x7fffffff);
  if (greatest > std::bit_cast<uint32_t>(std::ldexp(127.0f, kGreatestExponent)))
    return write_without_integers(kNotFinite, count, block);
  // 127 = 0x1.fcp6. Adding the distance from 0x1.fc to the greatest mantissa carries into the
  // exponent exactly if the mantissa is greater than 0x1.fc.
  const int exponent =
      std::max(static_cast<int>((greatest + 0x1ffff) >> 23) - 127 - 6, kLeastExponent);
  const float scale = std::ldexp(1.0f, 16 - exponent);
  int32_t scaled[kBlockElements];
  for (uint64_t k = 0; k < count; ++k) scaled[k] = static_cast<int32_t>(values[k] * scale);
  write_rounded(scaled, count, random, static_cast<unsigned>(exponent - kLeastExponent), block);
}

template <class Integer>
void read_integers(const std::byte* integers, uint64_t count, int64_t* out) {
  for (uint64_t k = 0; k < count; ++k) {
    Integer q;
    std::memcpy(&q, integers + k * sizeof(Integer), sizeof(Integer));
    out[k] = q;
  }
}

template <class Integer>
void write_integers(const int64_t* integers, uint64_t count, std::byte* out) {
  for (uint64_t k = 0; k < count; ++k) {
    const Integer q = static_cast<Integer>(integers[k]);
    std::memcpy(out + k * sizeof(Integer), &q, sizeof(Integer));
  }
}

/// Reads the integers of a block and returns the bytes of the block.
uint64_t read_block(const std::byte* block, uint64_t count, int64_t* out) {
  const unsigned log_width = log_width_of(block[0]);
  switch (log_width) {
    case 0: read_integers<int8_t>(block + 1, count, out); break;
    case 1: read_integers<int16_t>(block + 1, count, out); break;
    case 2: read_integers<int32_t>(block + 1, count, out); break;
    default: read_integers<int64_t>(block + 1, count, out);
  }
  return 1 + (count << log_width);
}

/// Writes a block of the least width. Returns its bytes.
uint64_t write_block(const int64_t* integers, uint64_t count, unsigned code, std::byte* block) {
  uint64_t used = 0;  // bit 0: the sign; all bits are clear only for zero
  for (uint64_t k = 0; k < count; ++k)
    used |= static_cast<uint64_t>(integers[k]) << 1 ^ static_cast<uint64_t>(integers[k] >> 63);
  if (used == 0) code = kZeroBlock;
  const unsigned log_width = used >> 8 == 0 ? 0 : used >> 16 == 0 ? 1 : used >> 32 == 0 ? 2 : 3;
  block[0] = block_header(code, log_width);
  switch (log_width) {
    case 0: write_integers<int8_t>(integers, count, block + 1); break;
    case 1: write_integers<int16_t>(integers, count, block + 1); break;
    case 2: write_integers<int32_t>(integers, count, block + 1); break;
    default: write_integers<int64_t>(integers, count, block + 1);
  }
  return 1 + (count << log_width);
}

/// Multiplies by 2^shift. Unsigned, because the values of a hostile peer may overflow.
int64_t shifted_left(int64_t value, unsigned shift) {
  return static_cast<int64_t>(static_cast<uint64_t>(value) << shift);
}

/// The least exponent e for which `greatest` > 0 is at most 127 * 2^e.
int exponent_for(uint64_t greatest) {
  const int exponent = static_cast<int>(std::bit_width(greatest)) - 7;
  return exponent > 0 && greatest > uint64_t{127} << exponent ? exponent + 1 : exponent;
}

void round_block(const int64_t* integers, uint64_t count, unsigned code, const BlockWords& random,
                 std::byte* block) {
  uint64_t greatest = 0;
  for (uint64_t k = 0; k < count; ++k) {
    const uint64_t q = static_cast<uint64_t>(integers[k]);
    greatest = std::max(greatest, integers[k] < 0 ? 0 - q : q);
  }
  if (greatest == 0) return write_without_integers(kZeroBlock, count, block);
  const int rounded = std::max(static_cast<int>(code) + exponent_for(greatest), 0);
  if (rounded >= static_cast<int>(kNotFinite))
    return write_without_integers(kNotFinite, count, block);
  // The bits below 2^(rounded - 16) are dropped: no random bits of 16 can carry from them.
  const int shift = static_cast<int>(code) - rounded + 16;
  int32_t scaled[kBlockElements];
  for (uint64_t k = 0; k < count; ++k)
    scaled[k] =
        static_cast<int32_t>(shift >= 0 ? shifted_left(integers[k], shift) : integers[k] >> -shift);
  write_rounded(scaled, count, random, static_cast<unsigned>(rounded), block);
}

uint64_t block_elements(uint64_t done, uint64_t elements) {
  return std::min(kBlockElements, elements - done);
}

}  // namespace

void encode_blocks(std::span<const float> values, uint64_t first, const RandomStream& random,
                   std::byte* blocks) {
  for (uint64_t done = 0; done < values.size(); done += kBlockElements) {
    const uint64_t count = block_elements(done, values.size());
    encode_block(values.data() + done, count, block_words(random, first + done), blocks);
    blocks += 1 + count;
  }
}

uint64_t add_blocks(const std::byte* a, const std::byte* b, uint64_t elements, std::byte* sum) {
  const std::byte* const begin = sum;
  for (uint64_t done = 0; done < elements; done += kBlockElements) {
    const uint64_t count = block_elements(done, elements);
    const unsigned code_a = code_of(*a), code_b = code_of(*b), code = std::min(code_a, code_b);
    const bool finite = code_a != kNotFinite && code_b != kNotFinite;
    BlockIntegers integers_a, integers_b;
    a += read_block(a, count, integers_a);
    b += read_block(b, count, integers_b);
    if (!finite) {
      write_without_integers(kNotFinite, count, sum);
      sum += 1 + count;
      continue;
    }
    for (uint64_t k = 0; k < count; ++k)
      integers_a[k] =
          static_cast<int64_t>(static_cast<uint64_t>(shifted_left(integers_a[k], code_a - code)) +
                               static_cast<uint64_t>(shifted_left(integers_b[k], code_b - code)));
    sum += write_block(integers_a, count, code, sum);
  }
  return static_cast<uint64_t>(sum - begin);
}

void round_blocks(const std::byte* blocks, uint64_t elements, uint64_t first,
                  const RandomStream& random, std::byte* rounded) {
  for (uint64_t done = 0; done < elements; done += kBlockElements) {
    const uint64_t count = block_elements(done, elements);
    const unsigned code = code_of(*blocks);
    BlockIntegers integers;
    blocks += read_block(blocks, count, integers);
    if (code == kNotFinite)
      write_without_integers(kNotFinite, count, rounded);
    else
      round_block(integers, count, code, block_words(random, first + done), rounded);
    rounded += 1 + count;
  }
}

void decode_blocks(const std::byte* blocks, std::span<float> values) {
  for (uint64_t done = 0; done < values.size(); done += kBlockElements) {
    const uint64_t count = block_elements(done, values.size());
    const unsigned code = code_of(*blocks);
    const float unit = code == kNotFinite
                           ? std::numeric_limits<float>::quiet_NaN()
                           : std::ldexp(1.0f, static_cast<int>(code) + kLeastExponent);
    BlockIntegers integers;
    blocks += read_block(blocks, count, integers);
    for (uint64_t k = 0; k < count; ++k) values[done + k] = static_cast<float>(integers[k]) * unit;
  }
}

std::optional<uint64_t> length_of_blocks(std::span<const std::byte> bytes, uint64_t elements) {
  uint64_t length = 0;
  for (uint64_t done = 0; done < elements; done += kBlockElements) {
    if (length >= bytes.size()) return std::nullopt;
    const std::byte header = bytes[length];
    if (code_of(header) == kNotFinite && log_width_of(header) != 0) return std::nullopt;
    length += 1 + (block_elements(done, elements) << log_width_of(header));
  }
  if (length > bytes.size()) return std::nullopt;
  return length;
}

}  // namespace poseidon::comm
