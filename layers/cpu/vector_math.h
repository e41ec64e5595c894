#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

/// Functions of one float, made of plain arithmetic. So compilers vectorize loops over these
/// functions for every instruction set. Loops with calls to the C library are not vectorized. The
/// result of NaN is NaN, unless a function requires a normal argument.
namespace poseidon::layers::cpu {

/// The parts of e^x = 2^n (1 + less_1), where |less_1| <= 0.42.
struct ExpParts {
  int32_t n;
  float less_1;
};

inline ExpParts exp_parts(float x) {
  constexpr float kLog2E = 1.44269504F, kRound = 0x1.8p23F;
  constexpr float kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F;
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
  return {std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kRound), r + r * r * series};
}

/// 2^n for n from -126 to 127.
inline float power_of_2(int32_t n) {
  return std::bit_cast<float>((static_cast<uint32_t>(n) << 23) + 0x3F800000U);
}

/// e^x within 2 ulp. The argument is limited to [-87.3, 88.3], so the result is neither 0 nor
/// infinite.
inline float fast_exp(float x) {
  x = std::min(std::max(x, -87.3F), 88.3F);
  const ExpParts parts = exp_parts(x);
  return (1 + parts.less_1) * power_of_2(parts.n);
}

/// e^x - 1 within 3 ulp, also near 0. The argument is limited to [-87.3, 88.3], so the result is
/// not infinite.
inline float fast_expm1(float x) {
  x = std::min(std::max(x, -87.3F), 88.3F);
  const ExpParts parts = exp_parts(x);
  const float power = power_of_2(parts.n);
  return power * parts.less_1 + (power - 1);
}

/// e^x within 2 ulp. The result may be 0 or infinite.
inline float exp_to_its_ends(float x) {
  x = std::min(std::max(x, -104.0F), 89.0F);
  const ExpParts parts = exp_parts(x);
  const int32_t half = parts.n >> 1;
  return (1 + parts.less_1) * power_of_2(half) * power_of_2(parts.n - half);
}

/// The natural logarithm of a positive, normal x, within 3 ulp. If the result is near 0, the
/// absolute error is at most 3 ulp of the number 1.
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

/// The natural logarithm of any x: minus infinity at 0, NaN below 0.
inline float log_of_any(float x) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kMin = std::numeric_limits<float>::min();
  const bool normal = x >= kMin;
  const float logarithm = fast_log(normal ? x : x * 0x1p24F) - (normal ? 0 : 16.6355323F);
  const float of_no_more_than_0 = x == 0 ? -kInfinity : std::numeric_limits<float>::quiet_NaN();
  return x > 0 ? (x < kInfinity ? logarithm : kInfinity) : of_no_more_than_0;
}

/// ln(1 + x) for x from 0 to 1, within 3 ulp, also near 0.
inline float fast_log1p(float x) {
  const float t = x / (2 + x), square = t * t;
  float series = 2.0F / 17;
  series = series * square + 2.0F / 15;
  series = series * square + 2.0F / 13;
  series = series * square + 2.0F / 11;
  series = series * square + 2.0F / 9;
  series = series * square + 2.0F / 7;
  series = series * square + 2.0F / 5;
  series = series * square + 2.0F / 3;
  return 2 * t + t * square * series;
}

/// The natural logarithm of a positive, normal x, with 10 correct digits.
inline double exact_log(float x) {
  constexpr uint32_t kSqrtHalf = 0x3F3504F3U;
  const uint32_t bits = std::bit_cast<uint32_t>(x) - kSqrtHalf;
  const double exponent = static_cast<int32_t>(bits) >> 23;
  const double mantissa =
      static_cast<double>(std::bit_cast<float>((bits & 0x007FFFFFU) + kSqrtHalf));
  const double t = (mantissa - 1) / (mantissa + 1), square = t * t;
  double series = 2.0 / 13;
  series = series * square + 2.0 / 11;
  series = series * square + 2.0 / 9;
  series = series * square + 2.0 / 7;
  series = series * square + 2.0 / 5;
  series = series * square + 2.0 / 3;
  return exponent * 0.693147180559945309 + (2 * t + t * square * series);
}

/// size^power for size >= 0 and power != 0, within 3 ulp. The product of power and logarithm is in
/// double precision, because the exponential turns the product's absolute error into a relative
/// error.
inline float power_of_size(float size, float power) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kMin = std::numeric_limits<float>::min();
  const bool normal = size >= kMin;
  const double logarithm =
      exact_log(normal ? size : size * 0x1p24F) - (normal ? 0 : 16.635532333438686);
  const double exact = static_cast<double>(power) * logarithm;
  const auto exponent = static_cast<float>(exact);
  const auto rest = static_cast<float>(exact - static_cast<double>(exponent));
  const float usual = exp_to_its_ends(exponent) * (1 + rest);
  const float of_0 = power > 0 ? 0 : kInfinity, of_infinity = power > 0 ? kInfinity : 0;
  const float of_ends = size == 0 ? of_0 : (size == kInfinity ? of_infinity : size);
  return size > 0 && size < kInfinity ? usual : of_ends;
}

inline float fast_sigmoid(float x) { return 1 / (1 + fast_exp(-x)); }

/// tanh(x) within 3 ulp. Near 0, 1 - 2 / (e^2x + 1) would lose all digits. So near 0 the function
/// uses a polynomial fitted to tanh(x) / x (relative error 1e-9).
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

/// s^(-1/4) of a positive, normal s, within 3 ulp. Newton's method starts with a guess from the
/// bits of s (error 3e-2, then 2e-3, 1e-5, 5e-10).
inline float inverse_fourth_root(float s) {
  float root = std::bit_cast<float>(0x4F584800U - (std::bit_cast<uint32_t>(s) >> 2));
  for (int i = 0; i < 3; ++i) {
    const float square = root * root;
    root *= 1.25F - 0.25F * s * (square * square);
  }
  return root;
}

}  // namespace poseidon::layers::cpu
