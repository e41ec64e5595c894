// Blocks of integers: encoding, exact sums and rounding, compared with a slow computation; bytes of
// all instruction sets; hostile bytes.

#include "comm/wire/integer_blocks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "core/digest.h"
#include "tests/support/isas.h"

using namespace poseidon;
using namespace poseidon::comm;

namespace {

__extension__ typedef __int128 Int128;
using Bytes = std::vector<std::byte>;

const RandomStream kBlockRandom(3, RandomPurpose::kGeneration, 5, 0x700000009);
constexpr int kZeroCode = kGreatestExponent - kLeastExponent;
const std::vector<uint64_t> kLengths{1, 2, 31, 255, 256, 257, 511, 2000};

Bytes encoded_blocks(const std::vector<float>& values, uint64_t first = 0,
                     const RandomStream& random = kBlockRandom) {
  Bytes out(bytes_of_blocks(values.size(), 1));
  encode_blocks(values, first, random, out.data());
  return out;
}

std::vector<float> decoded_blocks(const Bytes& blocks, uint64_t elements) {
  std::vector<float> out(elements);
  decode_blocks(blocks.data(), out);
  return out;
}

Bytes sum_of_blocks(const Bytes& a, const Bytes& b, uint64_t elements) {
  Bytes out(bytes_of_blocks(elements, 8));
  out.resize(add_blocks(a.data(), b.data(), elements, out.data()));
  return out;
}

Bytes rounded_blocks(const Bytes& blocks, uint64_t elements, uint64_t first = 0,
                     const RandomStream& random = kBlockRandom) {
  Bytes out(bytes_of_blocks(elements, 1));
  round_blocks(blocks.data(), elements, first, random, out.data());
  return out;
}

/// Gradients of random sizes. Blocks have different exponents.
std::vector<float> random_gradients(uint64_t elements, uint64_t seed) {
  RandomStream random(seed, RandomPurpose::kGeneration, 0, 0);
  std::vector<float> out(elements);
  float size = 1;
  for (uint64_t i = 0; i < elements; ++i) {
    if (i % kBlockElements == 0)
      size = std::ldexp(1.0f, static_cast<int>(random.next_below(16)) - 12);
    out[i] = size * random.next_uniform(-1, 1) * random.next_uniform();
  }
  return out;
}

/// A block of a test: the integers, and the exponent as its code.
struct TestBlock {
  int code = 0;
  int width = 1;
  std::vector<int64_t> integers;

  Int128 value(size_t k) const { return static_cast<Int128>(integers[k]) << code; }
  bool finite() const { return code != static_cast<int>(kNotFinite); }
};

std::vector<TestBlock> parsed_blocks(const Bytes& bytes, uint64_t elements) {
  std::vector<TestBlock> out;
  size_t at = 0;
  for (uint64_t done = 0; done < elements; done += kBlockElements) {
    const int header = std::to_integer<int>(bytes.at(at++));
    TestBlock block{header >> 2, 1 << (header & 3), {}};
    for (uint64_t k = done; k < std::min(done + kBlockElements, elements); ++k) {
      uint64_t q = 0;
      for (int i = 0; i < block.width; ++i)
        q |= std::to_integer<uint64_t>(bytes.at(at++)) << (8 * i);
      const int above = 64 - 8 * block.width;
      block.integers.push_back(static_cast<int64_t>(q << above) >> above);
    }
    out.push_back(block);
  }
  CHECK(at == bytes.size());
  return out;
}

Bytes bytes_of(const std::vector<TestBlock>& blocks) {
  Bytes out;
  for (const TestBlock& block : blocks) {
    const int log_width = block.width == 8 ? 3 : block.width / 2;
    out.push_back(static_cast<std::byte>(block.code << 2 | log_width));
    for (const int64_t q : block.integers)
      for (int i = 0; i < block.width; ++i) out.push_back(static_cast<std::byte>(q >> (8 * i)));
  }
  return out;
}

int least_width(const std::vector<int64_t>& integers) {
  int width = 1;
  for (const int64_t q : integers)
    while (width < 8 &&
           (q >= int64_t{1} << (8 * width - 1) || q < -(int64_t{1} << (8 * width - 1))))
      width *= 2;
  return width;
}

uint32_t bits_of_element(const RandomStream& random, uint64_t element) {
  const uint64_t block = element / 256, k = element % 256;
  const uint32_t word = random.at(block * 32 + k % 32)[k / 64];
  return k / 32 % 2 == 0 ? word % 65536 : word / 65536;
}

/// Sets the code of a block to that of zeros if it has only zeros.
TestBlock with_zero_code(TestBlock block) {
  if (std::ranges::all_of(block.integers, [](int64_t q) { return q == 0; })) block.code = kZeroCode;
  return block;
}

/// encode_blocks() of one block, in double precision.
TestBlock slow_encoding(const float* values, uint64_t count, uint64_t first,
                        const RandomStream& random) {
  double greatest = 0;
  bool finite = true;
  for (uint64_t k = 0; k < count; ++k) {
    finite = finite && std::isfinite(values[k]);
    greatest = std::max(greatest, std::abs(static_cast<double>(values[k])));
  }
  TestBlock out{kNotFinite, 1, std::vector<int64_t>(count)};
  if (!finite || greatest > std::ldexp(127.0, kGreatestExponent)) return out;
  int exponent = kLeastExponent;
  while (greatest > std::ldexp(127.0, exponent)) ++exponent;
  for (uint64_t k = 0; k < count; ++k) {
    const double scaled = std::trunc(std::ldexp(static_cast<double>(values[k]), 16 - exponent));
    out.integers[k] =
        static_cast<int64_t>(std::floor((scaled + bits_of_element(random, first + k)) / 65536));
  }
  out.code = exponent - kLeastExponent;
  return with_zero_code(out);
}

TestBlock slow_sum(const TestBlock& a, const TestBlock& b) {
  TestBlock out{kNotFinite, 1, std::vector<int64_t>(a.integers.size())};
  if (!a.finite() || !b.finite()) return out;
  out.code = std::min(a.code, b.code);
  for (size_t k = 0; k < a.integers.size(); ++k)
    out.integers[k] = static_cast<int64_t>((a.value(k) + b.value(k)) >> out.code);
  out.width = least_width(out.integers);
  return with_zero_code(out);
}

TestBlock slow_rounding(const TestBlock& block, uint64_t first, const RandomStream& random) {
  TestBlock out{kNotFinite, 1, std::vector<int64_t>(block.integers.size())};
  if (!block.finite()) return out;
  Int128 greatest = 0;
  for (size_t k = 0; k < block.integers.size(); ++k)
    greatest = std::max(greatest, block.value(k) < 0 ? -block.value(k) : block.value(k));
  int code = 0;
  while (greatest > static_cast<Int128>(127) << code) ++code;
  if (code > 62) return out;
  for (size_t k = 0; k < block.integers.size(); ++k) {
    const Int128 bits = bits_of_element(random, first + k);
    out.integers[k] =
        static_cast<int64_t>((block.value(k) * 65536 + (bits << code)) >> (code + 16));
  }
  out.code = code;
  return with_zero_code(out);
}

Bytes slow_encodings(const std::vector<float>& values, uint64_t first = 0) {
  std::vector<TestBlock> out;
  for (uint64_t done = 0; done < values.size(); done += kBlockElements)
    out.push_back(slow_encoding(values.data() + done,
                                std::min(kBlockElements, values.size() - done), first + done,
                                kBlockRandom));
  return bytes_of(out);
}

Bytes slow_roundings(const std::vector<TestBlock>& blocks, uint64_t first = 0) {
  std::vector<TestBlock> out;
  for (const TestBlock& block : blocks) {
    out.push_back(slow_rounding(block, first, kBlockRandom));
    first += kBlockElements;
  }
  return bytes_of(out);
}

/// A block with integers of all sizes up to `bits` bits without sign.
TestBlock random_block(uint64_t count, int code, int bits, RandomStream& random) {
  TestBlock out{code, 1, {}};
  for (uint64_t k = 0; k < count; ++k) {
    const uint64_t word = uint64_t{random.next_word()} << 32 | random.next_word();
    const int used = static_cast<int>(random.next_below(static_cast<uint32_t>(bits) + 1));
    const int64_t q = used == 0 ? 0 : static_cast<int64_t>(word >> (64 - used));
    out.integers.push_back(random.next_below(2) == 0 ? q : -q);
  }
  out.width = least_width(out.integers);
  return with_zero_code(out);
}

/// Blocks of `elements` elements with random codes and widths. Sums of two are below 2^63.
std::vector<TestBlock> random_blocks(uint64_t elements, RandomStream& random) {
  std::vector<TestBlock> out;
  for (uint64_t done = 0; done < elements; done += kBlockElements) {
    const int code = static_cast<int>(random.next_below(kZeroCode + 1));
    const int bits = static_cast<int>(random.next_below(static_cast<uint32_t>(62 - code))) + 1;
    out.push_back(random_block(std::min(kBlockElements, elements - done), code, bits, random));
  }
  return out;
}

}  // namespace

TEST_CASE("integer blocks: the encoding equals that of a slow computation") {
  for_each_isa([&] {
    for (const uint64_t elements : kLengths)
      for (const uint64_t first : {uint64_t{0}, uint64_t{768}, uint64_t{256} << 32}) {
        const auto values = random_gradients(elements, elements);
        const Bytes blocks = encoded_blocks(values, first);
        CHECK(blocks == slow_encodings(values, first));
        CHECK(length_of_blocks(blocks, elements) == blocks.size());
      }
    const auto values = random_gradients(65536 + 3, 9);
    CHECK(encoded_blocks(values) == slow_encodings(values));
  });
}

TEST_CASE("integer blocks: special values are encoded like in a slow computation") {
  using Limits = std::numeric_limits<float>;
  std::vector<std::vector<float>> cases{
      {0.0f, -0.0f},
      {Limits::denorm_min(), -Limits::denorm_min(), Limits::min() / 2},
      {Limits::min(), 0},
      {Limits::infinity(), 1},
      {1, -Limits::infinity()},
      {Limits::quiet_NaN(), 0},
      {-Limits::quiet_NaN(), Limits::max()},
      {Limits::max()},
      {0x1p-41f, -0x1p-41f, 0x1p-56f, -0x1p-57f},
      {std::nextafter(1.0f, 0.0f), -1, 1e-30f, Limits::denorm_min()}};
  for (int exponent = kLeastExponent - 1; exponent <= kGreatestExponent; ++exponent) {
    const float edge = std::ldexp(127.0f, exponent);
    for (const float value : {edge, std::nextafter(edge, 0.0f), std::nextafter(edge, 1e30f)}) {
      cases.push_back({value, -value, value / 3});
      cases.push_back({-value});
    }
  }
  for_each_isa([&] {
    for (const auto& values : cases) {
      CAPTURE(values[0]);
      CHECK(encoded_blocks(values) == slow_encodings(values));
      std::vector<float> full(300, 0.0f);
      for (const uint64_t at : {0, 100, 253}) std::ranges::copy(values, full.begin() + at);
      CHECK(encoded_blocks(full) == slow_encodings(full));
    }
  });
}

TEST_CASE("integer blocks: codes of zeros, of edges and of values that do not fit") {
  const auto code = [](std::vector<float> values) {
    return parsed_blocks(encoded_blocks(values), values.size())[0].code;
  };
  CHECK(code({0, 0}) == kZeroCode);
  CHECK(code({std::numeric_limits<float>::denorm_min()}) == kZeroCode);
  CHECK(code({127 * 0x1p-36f}) == 0);
  CHECK(code({std::nextafter(127 * 0x1p-36f, 1.0f)}) == 1);
  CHECK(code({127}) == -kLeastExponent);
  CHECK(code({-127 * 0x1p8f}) == kZeroCode);
  CHECK(code({std::nextafter(127 * 0x1p8f, 1e9f)}) == static_cast<int>(kNotFinite));
}

TEST_CASE("integer blocks: a tensor in parts has the bytes of the tensor") {
  const auto values = random_gradients(256 * 9 + 77, 4);
  const Bytes blocks = encoded_blocks(values);
  const Bytes sum =
      sum_of_blocks(blocks, encoded_blocks(random_gradients(values.size(), 5)), values.size());
  const Bytes rounded = rounded_blocks(sum, values.size());
  for (const size_t cut : {256, 1024, 2304}) {
    Bytes parts = encoded_blocks({values.begin(), values.begin() + cut});
    const Bytes rest = encoded_blocks({values.begin() + cut, values.end()}, cut);
    parts.insert(parts.end(), rest.begin(), rest.end());
    CHECK(parts == blocks);
    const uint64_t length = length_of_blocks(sum, cut).value();
    Bytes rounded_parts = rounded_blocks(sum, cut);
    const Bytes rounded_rest = rounded_blocks(
        {sum.begin() + static_cast<int64_t>(length), sum.end()}, values.size() - cut, cut);
    rounded_parts.insert(rounded_parts.end(), rounded_rest.begin(), rounded_rest.end());
    CHECK(rounded_parts == rounded);
  }
}

TEST_CASE("integer blocks: sums, roundings and decoded values equal those of a slow computation") {
  for_each_isa([&] {
    RandomStream random(8, RandomPurpose::kGeneration, 0, 0);
    for (int round = 0; round < 60; ++round) {
      const uint64_t elements = kLengths[random.next_below(static_cast<uint32_t>(kLengths.size()))];
      const auto a = random_blocks(elements, random), b = random_blocks(elements, random);
      std::vector<TestBlock> sums;
      for (size_t i = 0; i < a.size(); ++i) sums.push_back(slow_sum(a[i], b[i]));
      const Bytes sum = sum_of_blocks(bytes_of(a), bytes_of(b), elements);
      REQUIRE(sum == bytes_of(sums));
      REQUIRE(length_of_blocks(sum, elements) == sum.size());
      REQUIRE(rounded_blocks(sum, elements, 512) == slow_roundings(sums, 512));
      const auto decoded = decoded_blocks(sum, elements);
      for (uint64_t i = 0; i < elements; ++i) {
        const TestBlock& block = sums[i / kBlockElements];
        const float value = std::ldexp(static_cast<float>(block.integers[i % kBlockElements]),
                                       block.code + kLeastExponent);
        REQUIRE(decoded[i] == value);
      }
    }
  });
}

TEST_CASE("integer blocks: values have equal roundings in all representations") {
  for_each_isa([&] {
    RandomStream random(6, RandomPurpose::kGeneration, 0, 0);
    for (int round = 0; round < 200; ++round) {
      const int code = static_cast<int>(random.next_below(30)) + 8;
      const int bits = static_cast<int>(random.next_below(30)) + 1;
      const TestBlock block = random_block(256, code, bits, random);
      const Bytes rounded = rounded_blocks(bytes_of({block}), 256);
      CHECK(rounded == slow_roundings({block}));
      for (int shift = 1; shift <= 8; ++shift) {
        TestBlock finer{block.code - shift, 8, block.integers};
        for (int64_t& q : finer.integers) q *= int64_t{1} << shift;
        for (finer.width = least_width(finer.integers); finer.width <= 8; finer.width *= 2)
          CHECK(rounded_blocks(bytes_of({finer}), 256) == rounded);
      }
      // The values of one byte need no more rounding.
      CHECK(decoded_blocks(rounded_blocks(rounded, 256), 256) == decoded_blocks(rounded, 256));
    }
  });
}

TEST_CASE("integer blocks: a rounded sum does not depend on the order of additions") {
  RandomStream random(2, RandomPurpose::kGeneration, 0, 0);
  const uint64_t elements = 600;
  for (uint32_t addends = 1; addends <= 16; ++addends) {
    std::vector<Bytes> encodings;
    for (uint32_t i = 0; i < addends; ++i)
      encodings.push_back(encoded_blocks(random_gradients(elements, 100 * addends + i)));
    if (addends > 3) encodings[2] = encoded_blocks(std::vector<float>(elements));
    Bytes expected;
    for (int tree = 0; tree < 6; ++tree) {
      std::vector<Bytes> left = encodings;
      while (left.size() > 1) {
        std::swap(left[random.next_below(static_cast<uint32_t>(left.size()))], left.back());
        const Bytes last = std::move(left.back());
        left.pop_back();
        Bytes& other = left[random.next_below(static_cast<uint32_t>(left.size()))];
        other = sum_of_blocks(other, last, elements);
      }
      const Bytes rounded = rounded_blocks(left[0], elements);
      if (tree == 0) expected = rounded;
      CHECK(rounded == expected);
    }
  }
}

TEST_CASE("integer blocks: sums of the greatest and the least values are exact up to 63 bits") {
  // One addend has the least exponent. The others have the greatest value of the greatest exponent.
  constexpr int kDoublings = 63 - 7 - kZeroCode;
  for (const int sign : {1, -1}) {
    Bytes power = bytes_of({{kZeroCode, 1, {sign * 127, 0}}});
    Bytes sum = bytes_of({{0, 1, {sign, 1}}});
    for (int i = 0; i < kDoublings; ++i) {  // 1 + 2 + 4 ... addends
      sum = sum_of_blocks(sum, power, 2);
      power = sum_of_blocks(power, power, 2);
    }
    const int64_t addends = (int64_t{1} << kDoublings) - 1;
    CHECK(sum == bytes_of({{0, 8, {sign * ((addends * 127 << kZeroCode) + 1), 1}}}));
    CHECK(rounded_blocks(sum, 2) == slow_roundings(parsed_blocks(sum, 2)));
    CHECK(parsed_blocks(rounded_blocks(sum, 2), 2)[0].code == kZeroCode + kDoublings);
    // These sums exceed 64 bits: first by the addition, then by the alignment of exponents.
    const Bytes not_finite = bytes_of({{kNotFinite, 1, {0, 0}}});
    CHECK(sum_of_blocks(sum, power, 2) == not_finite);
    for (int i = 0; i < 3; ++i) power = sum_of_blocks(power, power, 2);
    CHECK(sum_of_blocks(bytes_of({{0, 1, {1, 1}}}), power, 2) == not_finite);
    CHECK(sum_of_blocks(power, bytes_of({{0, 1, {1, 1}}}), 2) == not_finite);
  }
}

TEST_CASE("integer blocks: zeros do not refine a sum, and NaN stays NaN") {
  const std::vector<float> zeros(300), values(300, 50.0f);
  const Bytes a = encoded_blocks(values);
  CHECK(sum_of_blocks(a, encoded_blocks(zeros), 300) == a);
  std::vector<float> opposite(300, -50.0f), faulty(300, 1.0f);
  CHECK(sum_of_blocks(a, encoded_blocks(opposite), 300) == encoded_blocks(zeros));
  faulty[299] = std::numeric_limits<float>::infinity();
  const Bytes sum = sum_of_blocks(sum_of_blocks(a, a, 300), encoded_blocks(faulty), 300);
  const Bytes rounded = rounded_blocks(sum, 300);
  const auto decoded = decoded_blocks(rounded, 300);
  CHECK(decoded[255] == 101);
  CHECK(std::all_of(decoded.begin() + 256, decoded.end(), [](float x) { return std::isnan(x); }));
  CHECK(decoded_blocks(sum, 300)[255] == 101);
  CHECK(std::isnan(decoded_blocks(sum, 300)[256]));
}

TEST_CASE("integer blocks: the mean of encoded and of rounded values is the value") {
  RandomStream random(1, RandomPurpose::kGeneration, 0, 0);
  std::vector<float> values(256);
  for (float& each : values) each = random.next_uniform(-1, 1);
  values[0] = 1;  // the unit is 2^-6
  const TestBlock exact{
      10, 2, {30000, -29999, 12345, -777, 77, 1, -1, 0, -30000}};  // the unit: 2^8
  constexpr int kSeeds = 4000;
  std::vector<double> sums(values.size()), sums_of_rounded(exact.integers.size());
  for (int seed = 0; seed < kSeeds; ++seed) {
    const RandomStream of_seed(static_cast<uint64_t>(seed), RandomPurpose::kGeneration, 1, 0);
    const auto encoded = parsed_blocks(encoded_blocks(values, 0, of_seed), 256)[0];
    const auto rounded = parsed_blocks(rounded_blocks(bytes_of({exact}), 9, 0, of_seed), 9)[0];
    REQUIRE(encoded.code == 30);
    REQUIRE(rounded.code == 18);
    for (size_t k = 0; k < 256; ++k) sums[k] += static_cast<double>(encoded.integers[k]);
    for (size_t k = 0; k < 9; ++k) sums_of_rounded[k] += static_cast<double>(rounded.integers[k]);
  }
  const auto check_mean = [](double sum, double expected) {
    const double fraction = expected - std::floor(expected);
    const double error = std::sqrt(fraction * (1 - fraction) / kSeeds);
    CHECK(std::abs(sum / kSeeds - expected) <= 4 * error + 0x1p-16);
  };
  for (size_t k = 0; k < 256; ++k) check_mean(sums[k], values[k] * 64);
  for (size_t k = 0; k < 9; ++k)
    check_mean(sums_of_rounded[k], static_cast<double>(exact.integers[k]) / 256);
}

TEST_CASE("integer blocks: the bytes are those of earlier versions, with all instruction sets") {
  for_each_isa([&] {
    const uint64_t elements = 10000;
    const Bytes a = encoded_blocks(random_gradients(elements, 1), 1024);
    const Bytes b = encoded_blocks(random_gradients(elements, 2), 1024);
    const Bytes sum = sum_of_blocks(a, b, elements);
    const Bytes rounded = rounded_blocks(sum, elements, 1024);
    const auto decoded = decoded_blocks(rounded, elements);
    CHECK(crc32c(a) == 3345501893);
    CHECK(crc32c(sum) == 347600857);
    CHECK(crc32c(rounded) == 2502403297);
    CHECK(crc32c(std::as_bytes(std::span(decoded))) == 2297511195);
  });
}

TEST_CASE("integer blocks: bytes that are no blocks are refused") {
  const auto length = [](const Bytes& bytes, uint64_t elements) {
    return length_of_blocks(bytes, elements);
  };
  const Bytes blocks = encoded_blocks(random_gradients(600, 1));
  CHECK(length(blocks, 600) == 603);
  CHECK(length(blocks, 256) == 257);
  CHECK(length(blocks, 0) == 0);
  CHECK(length({}, 0) == 0);
  CHECK(!length({}, 1));
  CHECK(!length(blocks, 601));
  CHECK(!length(blocks, std::numeric_limits<uint64_t>::max()));
  for (size_t bytes = 0; bytes < 603; ++bytes)
    REQUIRE(!length({blocks.begin(), blocks.begin() + static_cast<int64_t>(bytes)}, 600));
  for (int header = 0; header < 256; ++header) {
    Bytes block(1 + 10 * 8);
    block[0] = static_cast<std::byte>(header);
    const int width = 1 << (header & 3);
    const bool valid = header >> 2 != static_cast<int>(kNotFinite) || width == 1;
    CHECK(length(block, 10).value_or(0) == (valid ? static_cast<uint64_t>(1 + 10 * width) : 0));
  }
}

TEST_CASE("integer blocks: results of hostile integers are valid blocks") {
  using Limits = std::numeric_limits<int64_t>;
  for_each_isa([&] {
    RandomStream random(4, RandomPurpose::kGeneration, 0, 0);
    for (int round = 0; round < 100; ++round) {
      const int code = static_cast<int>(random.next_below(63));
      TestBlock block = random_block(300 - 256, code, 63, random);
      block.code = code;
      block.integers[7] = Limits::min();
      block.integers[8] = Limits::max();
      block.width = 8;
      CHECK(rounded_blocks(bytes_of({block}), 44) == slow_roundings({block}));
      const Bytes other = bytes_of({random_block(44, 0, 63, random)});
      const Bytes sum = sum_of_blocks(bytes_of({block}), other, 44);
      CHECK(length_of_blocks(sum, 44) == sum.size());
      const Bytes rounded = rounded_blocks(sum, 44);
      CHECK(length_of_blocks(rounded, 44) == 45);
    }
  });
}

TEST_CASE("blocks below and beyond the range are counted") {
  std::vector<float> values(4 * 256 + 1, 1);
  std::fill_n(values.begin(), 256, 0x1p-40F);
  std::fill_n(values.begin() + 256, 256, 0.0F);
  values[2 * 256 + 7] = 0x1p16F;
  const BlockCounts counts = count_blocks(encoded_blocks(values).data(), values.size());
  CHECK(counts == BlockCounts{.all = 5, .below = 1, .beyond = 1});
  values[2 * 256 + 7] = std::numeric_limits<float>::quiet_NaN();
  CHECK(count_blocks(encoded_blocks(values).data(), values.size()) == counts);
}
