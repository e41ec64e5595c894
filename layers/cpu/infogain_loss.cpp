#include "layers/infogain_loss.h"

#include <cmath>

#include "layers/cpu/cpu_layer.h"
#include "layers/cpu/softmax_rows.h"

namespace poseidon::layers::cpu {

namespace {

/// The workspace has the probabilities, so backward is one pass and does not read the scores.
class CpuInfogainLoss final : public CpuLayer {
 public:
  CpuInfogainLoss(const LayerRequest& request, CpuDevice& device)
      : CpuLayer(request, device), loss_(static_cast<const InfogainLoss&>(request.definition)) {
    needs_.input_formats = {kPlainFp32, kPlainFp32};
    needs_.output_format = kPlainFp32;
    needs_.workspace_bytes = static_cast<size_t>(loss_.samples * loss_.classes) * sizeof(float);
  }

  void forward(const StepContext&, const Bindings& memory) override {
    auto* probabilities = reinterpret_cast<float*>(memory.workspace);
    const int64_t classes = loss_.classes;
    for_each_item(team(), loss_.samples, 4 * classes, [&](int64_t n) {
      memory.output.as<float>()[n] = forward_sample(memory.inputs[0].as<float>() + n * classes,
                                                    worth(memory, n), probabilities + n * classes);
    });
  }

  void backward(const StepContext& step, const Bindings& memory) override {
    if (!memory.input_gradients[0]) return;
    const auto* probabilities = reinterpret_cast<const float*>(memory.workspace);
    const int64_t classes = loss_.classes;
    const float scale = step.loss_scale * static_cast<float>(loss_.weight);
    for_each_item(team(), loss_.samples, 4 * classes, [&](int64_t n) {
      backward_sample(probabilities + n * classes, worth(memory, n), scale,
                      memory.input_gradients[0].as<float>() + n * classes);
    });
  }

 private:
  /// The row of the matrix for a sample's label.
  const float* worth(const Bindings& memory, int64_t sample) const {
    const auto label = static_cast<int64_t>(memory.inputs[1].as<float>()[sample]);
    return loss_.rows.data() + label * loss_.classes;
  }

  float forward_sample(const float* scores, const float* worth, float* probabilities) const {
    const RowSum row = exponentiate_row(scores, probabilities, loss_.classes);
    const float inverse = 1 / row.sum;
    const double logarithm = std::log(static_cast<double>(row.sum));
    double loss = 0;
    for (int64_t c = 0; c < loss_.classes; ++c) {
      probabilities[c] *= inverse;
      const double distance = static_cast<double>(scores[c]) - static_cast<double>(row.largest);
      loss += static_cast<double>(worth[c]) * (logarithm - distance);
    }
    return static_cast<float>(loss);
  }

  void backward_sample(const float* probabilities, const float* worth, float scale,
                       float* target) const {
    double sum = 0;
    for (int64_t c = 0; c < loss_.classes; ++c) sum += static_cast<double>(worth[c]);
    const auto whole = static_cast<float>(sum);
    for (int64_t c = 0; c < loss_.classes; ++c)
      target[c] = scale * (whole * probabilities[c] - worth[c]);
  }

  const InfogainLoss& loss_;
};

}  // namespace

std::unique_ptr<Layer> make_infogain_loss(const LayerRequest& request, CpuDevice& device) {
  return std::make_unique<CpuInfogainLoss>(request, device);
}

}  // namespace poseidon::layers::cpu
