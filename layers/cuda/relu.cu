#include "layers/relu.h"

#include "layers/cuda/map.cuh"

namespace poseidon::layers::cuda {

namespace {

struct ReluForward {
  static constexpr const char* kName = "relu forward";
  float slope;
  POSEIDON_DEVICE float operator()(float x) const { return x * (x > 0 ? 1 : slope); }
};

struct ReluBackward {
  static constexpr const char* kName = "relu backward";
  float slope;
  POSEIDON_DEVICE float operator()(float g, float y) const { return g * (y > 0 ? 1 : slope); }
};

class CudaRelu final : public CudaLayer {
 public:
  CudaRelu(const LayerRequest& request, CudaDevice& device)
      : CudaLayer(request, device),
        slope_(static_cast<float>(static_cast<const Relu&>(request.definition).slope)) {
    needs_.backward_reads_output = true;
    needs_.forward_in_place = needs_.backward_in_place = 0;
  }

  void forward(const StepContext&, const Bindings& memory) override {
    map(device_, memory.inputs[0], memory.output, ReluForward{slope_});
  }

  void backward(const StepContext&, const Bindings& memory) override {
    if (!memory.input_gradients[0]) return;
    map_gradient(device_, memory, memory.output, memory.input_gradients[0], ReluBackward{slope_});
  }

 private:
  float slope_;
};

}  // namespace

std::unique_ptr<Layer> make_relu(const LayerRequest& request, const Making& making) {
  return std::make_unique<CudaRelu>(request, making.device);
}

}  // namespace poseidon::layers::cuda
