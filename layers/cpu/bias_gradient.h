#pragma once

#include "core/tensor.h"

namespace poseidon::layers::cpu {

/// The gradient of a bias: for each channel the sum of `gradient` over samples and positions, in
/// double precision and rounded once. Threads sum different channels.
void sum_bias_gradient(const Tensor& gradient, float* sums);

}  // namespace poseidon::layers::cpu
