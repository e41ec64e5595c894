#include "layers/tanh.h"

#include "layers/cpu/elementwise.h"
#include "layers/cpu/vector_math.h"

namespace poseidon::layers::cpu {

namespace {

class CpuTanh final : public CpuLayer {
 public:
  CpuTanh(const LayerRequest& request, CpuDevice& device) : CpuLayer(request, device) {
    needs_.backward_reads_output = true;
    needs_.forward_in_place = needs_.backward_in_place = 0;
  }

  void forward(const StepContext&, const Bindings& memory) override {
    map(memory.inputs[0], memory.output, [](float x) { return fast_tanh(x); });
  }

  void backward(const StepContext&, const Bindings& memory) override {
    map_gradient(memory, [](float g, float y, int64_t) { return g * (1 - y * y); });
  }
};

}  // namespace

std::unique_ptr<Layer> make_tanh(const LayerRequest& request, CpuDevice& device) {
  return std::make_unique<CpuTanh>(request, device);
}

}  // namespace poseidon::layers::cpu
