#include "layers/tanh.h"

#include "layers/cuda/device_math.cuh"
#include "layers/cuda/map.cuh"

namespace poseidon::layers::cuda {

namespace {

struct TanhForward {
  static constexpr const char* kName = "tanh forward";
  POSEIDON_DEVICE float operator()(float x) const { return hyperbolic_tangent(x); }
};

struct TanhBackward {
  static constexpr const char* kName = "tanh backward";
  POSEIDON_DEVICE float operator()(float g, float y) const { return g * (1 - y * y); }
};

class CudaTanh final : public CudaLayer {
 public:
  CudaTanh(const LayerRequest& request, CudaDevice& device) : CudaLayer(request, device) {
    needs_.backward_reads_output = true;
    needs_.forward_in_place = needs_.backward_in_place = 0;
  }

  void forward(const StepContext&, const Bindings& memory) override {
    map(device_, memory.inputs[0], memory.output, TanhForward{});
  }

  void backward(const StepContext&, const Bindings& memory) override {
    if (!memory.input_gradients[0]) return;
    map_gradient(device_, memory, memory.output, memory.input_gradients[0], TanhBackward{});
  }
};

}  // namespace

std::unique_ptr<Layer> make_tanh(const LayerRequest& request, const Making& making) {
  return std::make_unique<CudaTanh>(request, making.device);
}

}  // namespace poseidon::layers::cuda
