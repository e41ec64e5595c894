#pragma once

#include "core/cpu/thread_team.h"
#include "core/tensor.h"

namespace poseidon::layers::cpu {

/// Computes the gradient of a bias: for each channel the sum of `gradient` over samples and
/// positions. The sums are in double precision and rounded once. Threads sum different channels.
void sum_bias_gradient(poseidon::cpu::ThreadTeam& team, const Tensor& gradient, float* sums);

}  // namespace poseidon::layers::cpu
