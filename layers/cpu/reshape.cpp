#include "layers/reshape.h"

#include "layers/cpu/elementwise.h"

namespace poseidon::layers::cpu {

namespace {

/// Flatten or reshape. In plain layout the bytes stay the same. If the output has the memory of the
/// input, copy() does nothing.
class CpuReshape final : public CpuLayer {
 public:
  CpuReshape(const LayerRequest& request, CpuDevice& device) : CpuLayer(request, device) {
    needs_.input_formats = {kPlainFp32};
    needs_.output_format = kPlainFp32;
    needs_.forward_in_place = needs_.backward_in_place = 0;
  }

  void forward(const StepContext&, const Bindings& memory) override {
    copy(team(), memory.inputs[0], memory.output);
  }

  void backward(const StepContext&, const Bindings& memory) override {
    if (!memory.input_gradients[0]) return;
    if (memory.output_gradients.size() == 1)
      copy(team(), memory.output_gradients[0], memory.input_gradients[0]);
    else
      map_gradient(team(), memory, memory.output, [](float g, float, int64_t) { return g; });
  }
};

}  // namespace

std::unique_ptr<Layer> make_reshape(const LayerRequest& request, CpuDevice& device) {
  return std::make_unique<CpuReshape>(request, device);
}

std::unique_ptr<Layer> make_flatten(const LayerRequest& request, CpuDevice& device) {
  return std::make_unique<CpuReshape>(request, device);
}

}  // namespace poseidon::layers::cpu
