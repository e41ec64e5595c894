#pragma once

#include <cstddef>

#include "comm/wire/kernels/wire_kernels.h"

namespace poseidon::comm::POSEIDON_ISA {

/// The kernels for numbers of `kWidth` bytes: 2 or 4.
template <size_t kWidth>
SparseKernels sparse_kernels();

}  // namespace poseidon::comm::POSEIDON_ISA
