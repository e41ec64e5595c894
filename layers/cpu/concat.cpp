#include "layers/concat.h"

#include "layers/cpu/channel_slice.h"
#include "layers/cpu/elementwise.h"

namespace poseidon::layers::cpu {

namespace {

/// Whether each input, except the last one, fills its blocks. Otherwise a blocked layout cannot
/// concatenate the inputs.
bool fills_blocks(const LayerRequest& request, Layout layout) {
  for (size_t i = 0; i + 1 < request.input_shapes.size(); ++i) {
    const Blocking blocking(request.input_shapes[i], layout);
    if (blocking.channels % blocking.block != 0) return false;
  }
  return true;
}

class CpuConcat final : public CpuLayer {
 public:
  CpuConcat(const LayerRequest& request, CpuDevice& device) : CpuLayer(request, device) {
    Format format = common_format(request);
    if (format.layout != Layout::kChannelsLast && !fills_blocks(request, format.layout))
      format.layout = Layout::kPlain;
    needs_.output_format = format;
    needs_.input_formats.assign(request.input_shapes.size(), format);
  }

  void forward(const StepContext&, const Bindings& memory) override {
    int64_t channel = 0;
    for (const Tensor& input : memory.inputs) {
      ChannelSlice(input, memory.output, channel).copy_into(team(), memory.output);
      channel += input.shape.channels();
    }
  }

  void backward(const StepContext&, const Bindings& memory) override {
    const Tensor gradient = combined_gradient(team(), memory, std::nullopt);
    int64_t channel = 0;
    for (const Tensor& part : memory.input_gradients) {
      if (part) ChannelSlice(part, gradient, channel).copy_from(team(), gradient);
      channel += part.shape.channels();
    }
  }
};

}  // namespace

std::unique_ptr<Layer> make_concat(const LayerRequest& request, CpuDevice& device) {
  return std::make_unique<CpuConcat>(request, device);
}

}  // namespace poseidon::layers::cpu
