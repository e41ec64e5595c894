#include "layers/slice.h"

#include <array>

#include "layers/cuda/channel_parts.cuh"

namespace poseidon::layers::cuda {

namespace {

class CudaSlice final : public CudaLayer {
 public:
  CudaSlice(const LayerRequest& request, CudaDevice& device)
      : CudaLayer(request, device), slice_(static_cast<const Slice&>(request.definition)) {}

  void forward(const StepContext&, const Bindings& memory) override {
    const std::array part{piece(memory.output, slice_.begin, slice_.end)};
    copy_parts<PartsDirection::kSplit>(device_, part, memory.inputs[0]);
  }

  /// The gradient is zero for the channels outside the slice.
  void backward(const StepContext&, const Bindings& memory) override {
    const Tensor& whole = memory.input_gradients[0];
    if (!whole) return;
    const Tensor& gradient = combined_gradient(device_, memory, std::nullopt);
    const int64_t all = whole.shape.channels();
    std::vector<ChannelPart> parts;
    if (slice_.begin > 0) parts.push_back(piece({}, 0, slice_.begin));
    parts.push_back(piece(gradient, slice_.begin, slice_.end));
    if (slice_.end < all) parts.push_back(piece({}, slice_.end, all));
    copy_parts<PartsDirection::kJoin>(device_, parts, whole);
  }

 private:
  ChannelPart piece(const Tensor& tensor, int64_t begin, int64_t end) const {
    const auto bytes = static_cast<int64_t>(bytes_of(needs_.output_format.type));
    return {tensor.as<std::byte>(), static_cast<uint32_t>(begin * bytes),
            static_cast<uint32_t>(end * bytes)};
  }

  const Slice& slice_;
};

}  // namespace

std::unique_ptr<Layer> make_slice(const LayerRequest& request, const LayerContext& context) {
  return std::make_unique<CudaSlice>(request, context.device);
}

}  // namespace poseidon::layers::cuda
