#include "layers/reshape.h"

#include "layers/cuda/map.cuh"

namespace poseidon::layers::cuda {

namespace {

/// Flatten and reshape. They change the shape, but not the bytes, because input and output have
/// plain layout. If the net binds both tensors to the same memory, nothing is copied.
class CudaReshape final : public CudaLayer {
 public:
  CudaReshape(const LayerRequest& request, CudaDevice& device) : CudaLayer(request, device) {
    needs_.input_formats = {kPlainFp32};
    needs_.output_format = kPlainFp32;
    needs_.forward_in_place = needs_.backward_in_place = 0;
  }

  void forward(const StepContext&, const Bindings& memory) override {
    copy(memory.inputs[0], memory.output);
  }

  void backward(const StepContext&, const Bindings& memory) override {
    if (!memory.input_gradients[0]) return;
    if (memory.output_gradients.size() == 1)
      copy(memory.output_gradients[0], memory.input_gradients[0]);
    else
      map_gradient(device_, memory, {}, memory.input_gradients[0], Same{});
  }

 private:
  void copy(const Tensor& from, const Tensor& to) {
    device_.copy(from.data, to.data, bytes_of_elements<float>(count_of(from)));
  }
};

}  // namespace

std::unique_ptr<Layer> make_reshape(const LayerRequest& request, const LayerContext& context) {
  return std::make_unique<CudaReshape>(request, context.device);
}

std::unique_ptr<Layer> make_flatten(const LayerRequest& request, const LayerContext& context) {
  return std::make_unique<CudaReshape>(request, context.device);
}

}  // namespace poseidon::layers::cuda
