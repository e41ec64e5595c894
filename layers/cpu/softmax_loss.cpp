#include "layers/softmax_loss.h"

#include "layers/cpu/cpu_layer.h"
#include "layers/cpu/rank.h"
#include "layers/cpu/softmax_rows.h"

namespace poseidon::layers::cpu {

namespace {

double sum_of(const float* values, int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(values[i]);
  return sum;
}

/// The labels of a sample. `lambda` is the weight of the second label; 0: the sample is not
/// mixed.
struct SampleLabels {
  int64_t label, second;
  float lambda;
};

/// The exponential of a class takes as long as this many elements of a simple loop.
constexpr int64_t kTimeOfClass = 4;

/// The workspace has the probabilities, so backward is one pass and does not read the scores.
class CpuSoftmaxLoss final : public CpuLayer {
 public:
  CpuSoftmaxLoss(const LayerRequest& request, CpuDevice& device)
      : CpuLayer(request, device), loss_(static_cast<const SoftmaxLoss&>(request.definition)) {
    needs_.input_formats = {kPlainFp32, kPlainFp32};
    needs_.output_format = kPlainFp32;
    needs_.workspace_bytes = static_cast<size_t>(loss_.samples * loss_.classes) * sizeof(float);
  }

  void forward(const StepContext& step, const Bindings& memory) override {
    const float* scores = memory.inputs[0].as<float>();
    auto* probabilities = reinterpret_cast<float*>(memory.workspace);
    const int64_t classes = loss_.classes;
    for_each_item(team(), loss_.samples, kTimeOfClass * classes, [&](int64_t n) {
      forward_sample(scores + n * classes, labels_of(step, memory, n), probabilities + n * classes,
                     memory.output.as<float>() + 3 * n);
    });
  }

  void backward(const StepContext& step, const Bindings& memory) override {
    if (!memory.input_gradients[0]) return;
    const auto* probabilities = reinterpret_cast<const float*>(memory.workspace);
    const int64_t classes = loss_.classes;
    const float scale = step.loss_scale * static_cast<float>(loss_.weight);
    for_each_item(team(), loss_.samples, kTimeOfClass * classes, [&](int64_t n) {
      backward_sample(probabilities + n * classes, labels_of(step, memory, n), scale,
                      memory.input_gradients[0].as<float>() + n * classes);
    });
  }

 private:
  SampleLabels labels_of(const StepContext& step, const Bindings& memory, int64_t sample) const {
    const float* labels = memory.inputs[1].as<float>() + sample;
    const auto label = static_cast<int64_t>(labels[0]);
    if (!loss_.mixed || step.phase != Phase::kTrain) return {label, label, 0};
    return {label, static_cast<int64_t>(labels[loss_.samples]), labels[2 * loss_.samples]};
  }

  void forward_sample(const float* scores, const SampleLabels& labels, float* probabilities,
                      float* scalars) const {
    const int64_t classes = loss_.classes;
    const RowSum row = exponentiate_row(scores, probabilities, classes);
    const float inverse = 1 / row.sum;
    for (int64_t c = 0; c < classes; ++c) probabilities[c] *= inverse;
    const auto largest = static_cast<double>(row.largest), smoothing = loss_.label_smoothing;
    double at_label = static_cast<double>(scores[labels.label]) - largest;
    if (labels.lambda > 0)
      at_label += static_cast<double>(labels.lambda) * (static_cast<double>(scores[labels.second]) -
                                                        static_cast<double>(scores[labels.label]));
    double expected = (1 - smoothing) * at_label;
    if (smoothing > 0)
      expected += smoothing * (sum_of(scores, classes) / static_cast<double>(classes) - largest);
    const int64_t rank = rank_of(scores, classes, labels.label);
    scalars[0] = static_cast<float>(std::log(static_cast<double>(row.sum)) - expected);
    scalars[1] = rank < 1 ? 1 : 0;
    scalars[2] = rank < 5 ? 1 : 0;
  }

  void backward_sample(const float* probabilities, const SampleLabels& labels, float scale,
                       float* target) const {
    const auto smoothing = static_cast<float>(loss_.label_smoothing);
    const float everywhere = smoothing / static_cast<float>(loss_.classes);
#pragma omp simd
    for (int64_t c = 0; c < loss_.classes; ++c) target[c] = scale * (probabilities[c] - everywhere);
    const auto put = [&](int64_t label, float lambda) {
      target[label] = scale * (probabilities[label] - everywhere - lambda * (1 - smoothing));
    };
    if (labels.lambda > 0) put(labels.second, labels.lambda);
    put(labels.label, 1 - labels.lambda);
  }

  const SoftmaxLoss& loss_;
};

}  // namespace

std::unique_ptr<Layer> make_softmax_loss(const LayerRequest& request, CpuDevice& device) {
  return std::make_unique<CpuSoftmaxLoss>(request, device);
}

}  // namespace poseidon::layers::cpu
