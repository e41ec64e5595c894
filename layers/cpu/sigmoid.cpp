#include "layers/sigmoid.h"

#include "layers/cpu/elementwise.h"
#include "layers/cpu/vector_math.h"

namespace poseidon::layers::cpu {

namespace {

class CpuSigmoid final : public CpuLayer {
 public:
  CpuSigmoid(const LayerRequest& request, CpuDevice& device) : CpuLayer(request, device) {
    needs_.backward_reads_output = true;
    needs_.forward_in_place = needs_.backward_in_place = 0;
  }

  void forward(const StepContext&, const Bindings& memory) override {
    map(memory.inputs[0], memory.output, [](float x) { return fast_sigmoid(x); });
    clear_padding(memory.output);  // sigmoid(0) is 1/2
  }

  void backward(const StepContext&, const Bindings& memory) override {
    map_gradient(memory, [](float g, float y, int64_t) { return g * y * (1 - y); });
  }
};

}  // namespace

std::unique_ptr<Layer> make_sigmoid(const LayerRequest& request, CpuDevice& device) {
  return std::make_unique<CpuSigmoid>(request, device);
}

}  // namespace poseidon::layers::cpu
