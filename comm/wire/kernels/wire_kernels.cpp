#include "comm/wire/kernels/wire_kernels.h"

#include "comm/wire/kernels/block_kernels.h"
#include "comm/wire/kernels/sparse_kernels.h"

namespace poseidon::comm::POSEIDON_ISA {

WireKernels wire_kernels() { return {block_kernels(), sparse_kernels<2>(), sparse_kernels<4>()}; }

}  // namespace poseidon::comm::POSEIDON_ISA
