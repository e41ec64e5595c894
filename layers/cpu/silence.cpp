#include "layers/silence.h"

#include "layers/cpu/elementwise.h"

namespace poseidon::layers::cpu {

namespace {

class CpuSilence final : public CpuLayer {
 public:
  CpuSilence(const LayerRequest& request, CpuDevice& device) : CpuLayer(request, device) {
    needs_.output_format = kPlainFp32;
  }

  void forward(const StepContext&, const Bindings& memory) override {
    clear(team(), memory.output);
  }

  void backward(const StepContext&, const Bindings& memory) override {
    for (const Tensor& gradient : memory.input_gradients)
      if (gradient) clear(team(), gradient);
  }
};

}  // namespace

std::unique_ptr<Layer> make_silence(const LayerRequest& request, CpuDevice& device) {
  return std::make_unique<CpuSilence>(request, device);
}

}  // namespace poseidon::layers::cpu
