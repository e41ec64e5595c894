#include "layers/silence.h"

#include "layers/cuda/clear.cuh"

namespace poseidon::layers::cuda {

namespace {

class CudaSilence final : public CudaLayer {
 public:
  CudaSilence(const LayerRequest& request, CudaDevice& device) : CudaLayer(request, device) {
    needs_.input_formats = request.input_formats;
    needs_.output_format = kPlainFp32;
  }

  void forward(const StepContext&, const Bindings& memory) override {
    clear(device_, memory.output);
  }

  void backward(const StepContext&, const Bindings& memory) override {
    for (const Tensor& gradient : memory.input_gradients)
      if (gradient) clear(device_, gradient);
  }
};

}  // namespace

std::unique_ptr<Layer> make_silence(const LayerRequest& request, const LayerContext& context) {
  return std::make_unique<CudaSilence>(request, context.device);
}

}  // namespace poseidon::layers::cuda
