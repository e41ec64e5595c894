#include "layers/relu.h"

#include "layers/cpu/elementwise.h"

namespace poseidon::layers::cpu {

namespace {

class CpuRelu final : public CpuLayer {
 public:
  CpuRelu(const LayerRequest& request, CpuDevice& device)
      : CpuLayer(request, device),
        slope_(static_cast<float>(static_cast<const Relu&>(request.definition).slope)) {
    needs_.backward_reads_output = true;
    needs_.forward_in_place = needs_.backward_in_place = 0;
  }

  void forward(const StepContext&, const Bindings& memory) override {
    const float slope = slope_;
    map(memory.inputs[0], memory.output, [=](float x) { return x * (x > 0 ? 1 : slope); });
  }

  void backward(const StepContext&, const Bindings& memory) override {
    const float slope = slope_;
    map_gradient(memory, [=](float g, float y, int64_t) { return g * (y > 0 ? 1 : slope); });
  }

 private:
  float slope_;
};

}  // namespace

std::unique_ptr<Layer> make_relu(const LayerRequest& request, CpuDevice& device) {
  return std::make_unique<CpuRelu>(request, device);
}

}  // namespace poseidon::layers::cpu
