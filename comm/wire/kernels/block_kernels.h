#pragma once

#include "comm/wire/kernels/wire_kernels.h"

namespace poseidon::comm::POSEIDON_ISA {

BlockKernels block_kernels();

}  // namespace poseidon::comm::POSEIDON_ISA
