#include "layers/cuda/widen.h"

#include "layers/cuda/transpose.cuh"

namespace poseidon::layers::cuda {

std::unique_ptr<const poseidon::cuda::Operation> widening(const Bf16* from, float* to,
                                                          int64_t count) {
  using Kernel = CastKernel<Bf16, float>;
  using poseidon::cuda::blocks_for;
  return poseidon::cuda::launch_of(
      Kernel{from, to, count},
      {.blocks = blocks_for(blocks_for(count, Kernel::kEach), Kernel::kThreads)});
}

}  // namespace poseidon::layers::cuda
