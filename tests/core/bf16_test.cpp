#include "core/bf16.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <limits>

using namespace poseidon;

namespace {

uint16_t bits_of(Bf16 value) { return std::bit_cast<uint16_t>(value); }
float of_bits(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

/// Reference: the nearest bf16 value, found by distances in double precision. On a tie, the value
/// whose last bit is 0.
uint16_t nearest(float value) {
  const auto below = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
  const auto above = static_cast<uint16_t>(below + 1);
  const double exact = value;
  // After the largest finite value, the next one counts as 2^128.
  const double next = std::isinf(of_bits(above)) ? std::copysign(0x1p128, exact) : of_bits(above);
  const double down = std::abs(exact - of_bits(below)), up = std::abs(next - exact);
  if (down == up) return below % 2 == 0 ? below : above;
  return down < up ? below : above;
}

}  // namespace

TEST_CASE("bf16: every value except NaN converts to float and back unchanged") {
  for (uint32_t bits = 0; bits <= UINT16_MAX; ++bits) {
    const float value = of_bits(static_cast<uint16_t>(bits));
    if (std::isnan(value)) continue;
    REQUIRE(bits_of(Bf16(value)) == bits);
    REQUIRE(static_cast<float>(std::bit_cast<Bf16>(static_cast<uint16_t>(bits))) == value);
  }
}

TEST_CASE("bf16: floats round to nearest, ties to even") {
  size_t checked = 0;
  // All signs, exponents and upper mantissa bits, with lower bits at, near and far from the
  // midpoint.
  for (uint32_t upper = 0; upper <= UINT16_MAX; ++upper)
    for (const uint32_t lower : {1U, 0x1234U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU}) {
      const auto value = std::bit_cast<float>(upper << 16 | lower);
      if (std::isnan(value)) continue;
      REQUIRE(bits_of(Bf16(value)) == nearest(value));
      ++checked;
    }
  CHECK(checked > 300000);
  CHECK(std::isinf(static_cast<float>(Bf16(std::numeric_limits<float>::max()))));
}

TEST_CASE("bf16: every NaN becomes the NaN of a GPU") {
  for (const uint32_t bits :
       {0x7F800001U, 0xFF800001U, 0x7FC00000U, 0xFFC00000U, 0x7FFFFFFFU, 0xFFFFFFFFU}) {
    Bf16 assigned;
    assigned = std::bit_cast<float>(bits);
    CHECK(bits_of(assigned) == 0x7FFF);
    CHECK(bits_of(Bf16(std::bit_cast<float>(bits))) == 0x7FFF);
  }
  CHECK(std::isnan(of_bits(Bf16::kNan)));
}
