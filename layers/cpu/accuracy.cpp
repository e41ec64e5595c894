#include "layers/accuracy.h"

#include "layers/cpu/cpu_layer.h"
#include "layers/cpu/elementwise.h"
#include "layers/cpu/rank.h"

namespace poseidon::layers::cpu {

namespace {

class CpuAccuracy final : public CpuLayer {
 public:
  CpuAccuracy(const LayerRequest& request, CpuDevice& device)
      : CpuLayer(request, device), accuracy_(static_cast<const Accuracy&>(request.definition)) {
    needs_.input_formats = {kPlainFp32, kPlainFp32};
    needs_.output_format = kPlainFp32;
  }

  void forward(const StepContext&, const Bindings& memory) override {
    const float* scores = memory.inputs[0].as<float>();
    const float* labels = memory.inputs[1].as<float>();
    auto* out = memory.output.as<float>();
    const auto& top_k = accuracy_.top_k;
    for_each_item(team(), accuracy_.samples, accuracy_.classes, [&](int64_t n) {
      const int64_t rank = rank_of(scores + n * accuracy_.classes, accuracy_.classes,
                                   static_cast<int64_t>(labels[n]));
      for (size_t k = 0; k < top_k.size(); ++k)
        out[static_cast<size_t>(n) * top_k.size() + k] = rank < top_k[k] ? 1 : 0;
    });
  }
  void backward(const StepContext&, const Bindings& memory) override {
    if (memory.input_gradients[0]) clear(team(), memory.input_gradients[0]);
  }

 private:
  const Accuracy& accuracy_;
};

}  // namespace

std::unique_ptr<Layer> make_accuracy(const LayerRequest& request, CpuDevice& device) {
  return std::make_unique<CpuAccuracy>(request, device);
}

}  // namespace poseidon::layers::cpu
