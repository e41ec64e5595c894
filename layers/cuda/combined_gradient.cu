#include "layers/cuda/map.cuh"

namespace poseidon::layers::cuda {

namespace {

struct FusedReluBackward {
  static constexpr const char* kName = "gradient of a fused relu";
  float slope;
  POSEIDON_DEVICE float operator()(float sum, float y) const { return y > 0 ? sum : sum * slope; }
};

}  // namespace

const Tensor& combined_gradient(CudaDevice& device, const Bindings& memory,
                                std::optional<float> relu) {
  const Tensor& first = memory.output_gradients[0];
  if (relu)
    map_gradient(device, memory, memory.output, first, FusedReluBackward{*relu});
  else if (memory.output_gradients.size() > 1)
    map_gradient(device, memory, {}, first, Same{});
  return first;
}

}  // namespace poseidon::layers::cuda
