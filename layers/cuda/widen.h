#pragma once

#include <cstdint>
#include <memory>

#include "core/bf16.h"
#include "core/cuda/operation.h"

namespace poseidon::layers::cuda {

/// Returns an operation that converts `count` bf16 values to fp32.
std::unique_ptr<const poseidon::cuda::Operation> widening(const Bf16* from, float* to,
                                                          int64_t count);

}  // namespace poseidon::layers::cuda
