#pragma once

#include <memory>

#include "core/cpu/thread_team.h"
#include "layers/layer.h"

namespace poseidon::layers::cpu {

/// A layer that copies an activation from one format to another. backward copies the gradient back.
std::unique_ptr<Layer> make_reorder(poseidon::cpu::ThreadTeam& team, const Shape& shape,
                                    Format from, Format to);

/// Copies `source` to `target`, which has the same shape and another format. Padding lanes become
/// zero.
void reorder(poseidon::cpu::ThreadTeam& team, const Tensor& source, const Tensor& target);

}  // namespace poseidon::layers::cpu
