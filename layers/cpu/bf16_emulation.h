#pragma once

#include <memory>

#include "layers/layer.h"

namespace poseidon::layers::cpu {

/// A layer that keeps its activations as bf16 and has a layer for fp32 compute: of copies of its
/// inputs and gradients as fp32, and with its weights rounded to bf16, so that products and sums
/// are those of bf16 instructions but for the order of the sums. For processors, and geometries,
/// that have no code of their own for bf16.
std::unique_ptr<Layer> make_bf16_emulation(const LayerRequest& request,
                                           std::unique_ptr<Layer> fp32);

}  // namespace poseidon::layers::cpu
