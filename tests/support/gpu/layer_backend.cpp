#include "tests/support/layer_backend.h"

#include "tests/support/gpu/emulated_gpu_backend.h"

namespace poseidon::test {

LayerBackend make_layer_backend(int, DataType type) {
  return make_emulated_gpu_backend(
      {.seed = 1},
      {.precision = type == DataType::kBf16 ? cuda::Precision::kBf16 : cuda::Precision::kFp32});
}

}  // namespace poseidon::test
