#pragma once

#include "layers/cuda/channels.cuh"
#include "layers/cuda/device_math.cuh"

/// Local response normalization. x is the input, g the output's gradient, and m the number of
/// elements of a complete window. (A window at an edge has fewer elements.) With
///   s = k + alpha/m * (sum of x^2 over the window)
///   q = g * x * s^-(beta+1)
/// the passes compute
///   forward   y  = x * s^-beta
///   backward  dx = g * s^-beta - 2 * alpha/m * beta * x * (sum of q over the window).
/// Backward computes s again from x, which costs less than storing s.
namespace poseidon::layers::cuda {

/// Constants of a layer. The field alpha is alpha/m. The field gradient is 2 * alpha/m * beta. A
/// window reaches `half` elements to each side.
struct LrnConstants {
  float k, alpha, gradient;
  int half;
};

struct LrnPowers {
  float root, step;  ///< s^-beta, s^-(beta+1)
};

struct BetaThreeQuarters {
  POSEIDON_DEVICE LrnPowers operator()(float s) const {
    const float r = inverse_root(s);               // s^-1/2
    const float root = r * (r * inverse_root(r));  // r * sqrt(r) = s^-3/4
    return {root, root * (r * r)};
  }
};

struct AnyBeta {
  float beta;
  POSEIDON_DEVICE LrnPowers operator()(float s) const {
    const float root = exponential(-beta * logarithm(s));
    return {root, root / s};
  }
};

template <int kEach>
POSEIDON_DEVICE Channels<kEach> squares_of(const Channels<kEach>& x) {
  Channels<kEach> squares;
#pragma unroll
  for (int i = 0; i < kEach; ++i) squares[i] = x[i] * x[i];
  return squares;
}

}  // namespace poseidon::layers::cuda
