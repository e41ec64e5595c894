#include "layers/loss.h"

#include "layers/cpu/cpu_layer.h"
#include "layers/loss_rules.h"

namespace poseidon::layers::cpu {

namespace {

/// The target of each value of a sample: from the input, or 1 at the label and 0 elsewhere.
struct Targets {
  const float* given = nullptr;
  float label = 0;

  float operator[](int64_t i) const {
    if (given != nullptr) return given[i];
    return static_cast<float>(i) == label ? 1.0F : 0.0F;
  }
};

/// The workspace has one number for each sample: the factor of its derivatives.
template <class Rule>
class CpuElementLoss final : public CpuLayer {
 public:
  CpuElementLoss(const LayerRequest& request, CpuDevice& device, const Rule& rule)
      : CpuLayer(request, device),
        loss_(static_cast<const ElementLoss&>(request.definition)),
        rule_(rule) {
    needs_.input_formats.assign(request.input_formats.size(), Format(kPlainFp32));
    needs_.output_format = kPlainFp32;
    needs_.backward_reads_inputs = true;
    needs_.workspace_bytes = static_cast<size_t>(loss_.samples) * sizeof(float);
  }

  void forward(const StepContext&, const Bindings& memory) override {
    auto* factors = reinterpret_cast<float*>(memory.workspace);
    for_each_item(team(), loss_.samples, 4 * loss_.elements, [&](int64_t n) {
      const float* values = memory.inputs[0].template as<float>() + n * loss_.elements;
      const Targets targets = targets_of(memory, n);
      SampleSum sample{.sum = 0, .label = targets.label};
      for (int64_t i = 0; i < loss_.elements; ++i) sample.sum += rule_.term(values[i], targets[i]);
      memory.output.template as<float>()[n] = static_cast<float>(rule_.loss(sample));
      factors[n] = static_cast<float>(rule_.factor(sample));
    });
  }

  void backward(const StepContext& step, const Bindings& memory) override {
    const auto* factors = reinterpret_cast<const float*>(memory.workspace);
    const float scale = step.loss_scale * static_cast<float>(loss_.weight);
    for_each_item(team(), loss_.samples, 4 * loss_.elements,
                  [&](int64_t n) { backward_sample(memory, n, scale * factors[n]); });
  }

 private:
  Targets targets_of(const Bindings& memory, int64_t sample) const {
    Targets targets;
    if (loss_.has_targets()) targets.given = memory.inputs[1].as<float>() + sample * loss_.elements;
    if (loss_.reads_labels()) targets.label = memory.inputs.back().as<float>()[sample];
    return targets;
  }

  void backward_sample(const Bindings& memory, int64_t sample, float factor) const {
    const int64_t first = sample * loss_.elements;
    const float* values = memory.inputs[0].as<float>() + first;
    const Targets targets = targets_of(memory, sample);
    if (const Tensor& gradient = memory.input_gradients[0])
      for (int64_t i = 0; i < loss_.elements; ++i)
        gradient.as<float>()[first + i] = factor * rule_.slope(values[i], targets[i]);
    if (const Tensor& gradient = memory.input_gradients[1]; loss_.has_targets() && gradient)
      for (int64_t i = 0; i < loss_.elements; ++i)
        gradient.as<float>()[first + i] = factor * rule_.target_slope(values[i], targets[i]);
  }

  const ElementLoss& loss_;
  const Rule rule_;
};

template <class Rule>
std::unique_ptr<Layer> make_loss(const LayerRequest& request, CpuDevice& device, const Rule& rule) {
  return std::make_unique<CpuElementLoss<Rule>>(request, device, rule);
}

}  // namespace

std::unique_ptr<Layer> make_euclidean_loss(const LayerRequest& request, CpuDevice& device) {
  return make_loss(request, device, EuclideanLossRule{});
}

std::unique_ptr<Layer> make_sigmoid_loss(const LayerRequest& request, CpuDevice& device) {
  return make_loss(request, device, SigmoidLossRule{});
}

std::unique_ptr<Layer> make_contrastive_loss(const LayerRequest& request, CpuDevice& device) {
  const auto& loss = static_cast<const ContrastiveLoss&>(request.definition);
  return make_loss(request, device,
                   ContrastiveLossRule{.margin = loss.margin, .legacy = loss.legacy});
}

std::unique_ptr<Layer> make_hinge_loss(const LayerRequest& request, CpuDevice& device) {
  const auto& loss = static_cast<const HingeLoss&>(request.definition);
  return make_loss(request, device, HingeLossRule{.squared = loss.norm == HingeLoss::Norm::kL2});
}

std::unique_ptr<Layer> make_multinomial_loss(const LayerRequest& request, CpuDevice& device) {
  return make_loss(request, device, MultinomialLossRule{});
}

}  // namespace poseidon::layers::cpu
