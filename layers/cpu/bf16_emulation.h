#pragma once

#include <memory>

#include "core/cpu/thread_team.h"
#include "layers/layer.h"

namespace poseidon::layers::cpu {

/// A layer with bf16 activations that computes with an fp32 layer. The fp32 layer reads fp32 copies
/// of inputs and gradients, and its weights are rounded to bf16. So products and sums are equal to
/// those of bf16 instructions, except for the order of the sums. make_for_activations() uses this
/// layer if the processor has no bf16 instructions, or this build has no code with AVX-512.
std::unique_ptr<Layer> make_bf16_emulation(poseidon::cpu::ThreadTeam& team,
                                           const LayerRequest& request,
                                           std::unique_ptr<Layer> fp32);

}  // namespace poseidon::layers::cpu
