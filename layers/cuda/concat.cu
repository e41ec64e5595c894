#include "layers/concat.h"

#include <algorithm>

#include "layers/cuda/channel_parts.cuh"

namespace poseidon::layers::cuda {

namespace {

class CudaConcat final : public CudaLayer {
 public:
  CudaConcat(const LayerRequest& request, CudaDevice& device) : CudaLayer(request, device) {}

  void forward(const StepContext&, const Bindings& memory) override {
    copy<PartsDirection::kJoin>(memory.inputs, memory.output);
  }

  void backward(const StepContext&, const Bindings& memory) override {
    if (std::ranges::none_of(memory.input_gradients, &Tensor::operator bool)) return;
    copy<PartsDirection::kSplit>(memory.input_gradients,
                                 combined_gradient(device_, memory, std::nullopt));
  }

 private:
  template <PartsDirection kDirection>
  void copy(const std::vector<Tensor>& tensors, const Tensor& whole) {
    std::vector<ChannelPart> parts;
    uint32_t column = 0;
    for (const Tensor& tensor : tensors) {
      parts.push_back({tensor.as<std::byte>(), column, column + bytes_of_channels(tensor)});
      column = parts.back().end;
    }
    copy_parts<kDirection>(device_, parts, whole);
  }
};

}  // namespace

std::unique_ptr<Layer> make_concat(const LayerRequest& request, const LayerContext& context) {
  return std::make_unique<CudaConcat>(request, context.device);
}

}  // namespace poseidon::layers::cuda
