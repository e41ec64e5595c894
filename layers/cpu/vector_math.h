#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

/// Functions of one float made of plain arithmetic, so that loops over them become vector code on
/// every instruction set (calls to the C library do not). NaN goes in and comes out.
namespace poseidon::layers::cpu {

/// e^x within 2 ulp; the argument is held to [-87.3, 88.3], so the result is neither 0 nor
/// infinite.
inline float fast_exp(float x) {
  constexpr float kLog2E = 1.44269504F, kRound = 0x1.8p23F;
  constexpr float kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F;
  x = std::min(std::max(x, -87.3F), 88.3F);
  // Adding 1.5 * 2^23 leaves the nearest integer in the low bits of the mantissa.
  const float shifted = x * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float series = 1.0F / 5040;
  series = series * r + 1.0F / 720;
  series = series * r + 1.0F / 120;
  series = series * r + 1.0F / 24;
  series = series * r + 1.0F / 6;
  series = series * r + 0.5F;
  const float power = 1 + (r + r * r * series);
  const uint32_t exponent = std::bit_cast<uint32_t>(shifted) << 23;
  return power * std::bit_cast<float>(exponent + 0x3F800000U);
}

/// The natural logarithm of a positive, normal x, within 3 ulp (of 1 where the result is near 0).
inline float fast_log(float x) {
  constexpr uint32_t kSqrtHalf = 0x3F3504F3U;
  const uint32_t bits = std::bit_cast<uint32_t>(x) - kSqrtHalf;
  const auto exponent = static_cast<float>(static_cast<int32_t>(bits) >> 23);
  const float mantissa = std::bit_cast<float>((bits & 0x007FFFFFU) + kSqrtHalf);
  const float t = (mantissa - 1) / (mantissa + 1), square = t * t;
  float series = 2.0F / 9;
  series = series * square + 2.0F / 7;
  series = series * square + 2.0F / 5;
  series = series * square + 2.0F / 3;
  return exponent * 0.693147181F + (2 * t + t * square * series);
}

inline float fast_sigmoid(float x) { return 1 / (1 + fast_exp(-x)); }

/// Within 3 ulp, also near 0, where 1 - 2 / (e^2x + 1) would lose all digits: there a polynomial
/// fitted to tanh(x) / x (relative error 1e-9) takes its place.
inline float fast_tanh(float x) {
  const float size = std::abs(x), square = x * x;
  float series = -0.00627423776F;
  series = series * square + 0.0210716781F;
  series = series * square - 0.0538523085F;
  series = series * square + 0.13332586F;
  series = series * square - 0.333333164F;
  const float near = x + x * square * series;
  const float far = std::copysign(1 - 2 / (fast_exp(2 * size) + 1), x);
  return size < 0.55F ? near : far;
}

/// s^-1/4 of a positive, normal s, within 3 ulp: Newton's method from a guess made of the bits
/// (error 3e-2, then 2e-3, 1e-5, 5e-10).
inline float inverse_fourth_root(float s) {
  float root = std::bit_cast<float>(0x4F584800U - (std::bit_cast<uint32_t>(s) >> 2));
  for (int i = 0; i < 3; ++i) {
    const float square = root * root;
    root *= 1.25F - 0.25F * s * (square * square);
  }
  return root;
}

}  // namespace poseidon::layers::cpu
