#include "layers/sigmoid.h"

#include "layers/cuda/device_math.cuh"
#include "layers/cuda/map.cuh"

namespace poseidon::layers::cuda {

namespace {

struct SigmoidForward {
  static constexpr const char* kName = "sigmoid forward";
  POSEIDON_DEVICE float operator()(float x) const { return 1 / (1 + exponential(-x)); }
};

struct SigmoidBackward {
  static constexpr const char* kName = "sigmoid backward";
  POSEIDON_DEVICE float operator()(float g, float y) const { return g * y * (1 - y); }
};

class CudaSigmoid final : public CudaLayer {
 public:
  CudaSigmoid(const LayerRequest& request, CudaDevice& device) : CudaLayer(request, device) {
    needs_.backward_reads_output = true;
    needs_.forward_in_place = needs_.backward_in_place = 0;
  }

  void forward(const StepContext&, const Bindings& memory) override {
    map(device_, memory.inputs[0], memory.output, SigmoidForward{});
  }

  void backward(const StepContext&, const Bindings& memory) override {
    if (!memory.input_gradients[0]) return;
    map_gradient(device_, memory, memory.output, memory.input_gradients[0], SigmoidBackward{});
  }
};

}  // namespace

std::unique_ptr<Layer> make_sigmoid(const LayerRequest& request, const Making& making) {
  return std::make_unique<CudaSigmoid>(request, making.device);
}

}  // namespace poseidon::layers::cuda
