#include "layers/loss.h"

#include "layers/cuda/map.cuh"
#include "layers/cuda/reduce.cuh"
#include "layers/loss_rules.h"

namespace poseidon::layers::cuda {

namespace {

/// The inputs of a loss: the values, targets and label of each sample.
struct LossValues {
  const float* values;
  const float* targets;  ///< null: the target is 1 at the label and 0 elsewhere
  const float* labels;   ///< null: no labels
  uint32_t samples, elements;

  void visit(MemoryVisitor& visitor) const {
    const int64_t bytes = bytes_of_elements<float>(int64_t{samples} * elements);
    visitor.reads(values, bytes);
    if (targets != nullptr) visitor.reads(targets, bytes);
    if (labels != nullptr) visitor.reads(labels, bytes_of_elements<float>(samples));
  }
  POSEIDON_DEVICE float label(int64_t sample) const {
    return labels == nullptr ? 0 : labels[sample];
  }
  POSEIDON_DEVICE float value(int64_t sample, uint32_t i) const {
    return values[sample * elements + i];
  }
  POSEIDON_DEVICE float target(int64_t sample, uint32_t i) const {
    if (targets != nullptr) return targets[sample * elements + i];
    return static_cast<float>(i) == labels[sample] ? 1.0F : 0.0F;
  }
};

/// Computes for each sample the loss, and the factor of the derivatives (layers/loss_rules.h). One
/// team of threads (layers/cuda/reduce.cuh) processes one sample.
template <class Rule, class Team>
struct LossForwardKernel {
  static constexpr const char* kName = "loss forward";
  static constexpr uint32_t kThreads = Team::kThreads;
  using Shared = typename Team::Shared;

  LossValues in;
  float* losses;
  float* factors;
  Rule rule;

  void visit(MemoryVisitor& visitor) const {
    in.visit(visitor);
    visitor.writes(losses, bytes_of_elements<float>(in.samples));
    visitor.writes(factors, bytes_of_elements<float>(in.samples));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread, Shared& shared) const {
    const int64_t sample = Team::row(thread);
    if (sample >= in.samples) return;  // the whole team returns
    double sum = 0;
    for (uint32_t i = Team::member(thread); i < in.elements; i += Team::kSize)
      sum += rule.term(in.value(sample, i), in.target(sample, i));
    const SampleSum whole{Team::reduce(thread, shared, sum, Sum{}), in.label(sample)};
    if (Team::member(thread) != 0) return;
    losses[sample] = static_cast<float>(rule.loss(whole));
    factors[sample] = static_cast<float>(rule.factor(whole));
  }
};

/// Computes the derivatives with respect to the values and to the targets, if requested.
template <class Rule>
struct LossBackwardKernel {
  static constexpr const char* kName = "loss backward";
  static constexpr uint32_t kThreads = 256;

  LossValues in;
  const float* factors;
  float* gradient;         ///< null: not requested
  float* target_gradient;  ///< null: not requested
  float scale;
  Rule rule;

  void visit(MemoryVisitor& visitor) const {
    const int64_t bytes = bytes_of_elements<float>(int64_t{in.samples} * in.elements);
    in.visit(visitor);
    visitor.reads(factors, bytes_of_elements<float>(in.samples));
    if (gradient != nullptr) visitor.writes(gradient, bytes);
    if (target_gradient != nullptr) visitor.writes(target_gradient, bytes);
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const int64_t at = int64_t{thread.block()} * kThreads + thread.thread();
    if (at >= int64_t{in.samples} * in.elements) return;
    const int64_t sample = at / in.elements;
    const auto i = static_cast<uint32_t>(at % in.elements);
    const float value = in.value(sample, i), target = in.target(sample, i);
    const float factor = scale * factors[sample];
    if (gradient != nullptr) gradient[at] = factor * rule.slope(value, target);
    if (target_gradient != nullptr) target_gradient[at] = factor * rule.target_slope(value, target);
  }
};

/// A loss that sums a term over the elements of a sample. The workspace holds the factor of each
/// sample's derivatives.
template <class Rule>
class CudaElementLoss final : public CudaLayer {
 public:
  CudaElementLoss(const LayerRequest& request, CudaDevice& device, const Rule& rule)
      : CudaLayer(request, device),
        loss_(static_cast<const ElementLoss&>(request.definition)),
        rule_(rule) {
    needs_.input_formats.assign(request.input_formats.size(), kPlainFp32);
    needs_.output_format = kPlainFp32;
    needs_.backward_reads_inputs = true;
    needs_.workspace_bytes = bytes_of_elements<float>(loss_.samples);
  }

  void forward(const StepContext&, const Bindings& memory) override {
    const LossValues in = values_of(memory);
    with_team_for(in.elements, [&](auto team) {
      using Team = decltype(team);
      device_.launch(
          LossForwardKernel<Rule, Team>{in, memory.output.as<float>(), factors(memory), rule_},
          {.blocks = poseidon::cuda::blocks_for(in.samples, Team::kRowsPerBlock)});
    });
  }

  void backward(const StepContext& step, const Bindings& memory) override {
    const LossValues in = values_of(memory);
    const LossBackwardKernel<Rule> kernel{
        .in = in,
        .factors = factors(memory),
        .gradient = memory.input_gradients[0].as<float>(),
        .target_gradient = loss_.has_targets() ? memory.input_gradients[1].as<float>() : nullptr,
        .scale = step.loss_scale * static_cast<float>(loss_.weight),
        .rule = rule_};
    device_.launch_for(int64_t{in.samples} * in.elements, kernel);
  }

 private:
  LossValues values_of(const Bindings& memory) const {
    return {.values = memory.inputs[0].as<float>(),
            .targets = loss_.has_targets() ? memory.inputs[1].as<float>() : nullptr,
            .labels = loss_.reads_labels() ? memory.inputs.back().as<float>() : nullptr,
            .samples = static_cast<uint32_t>(loss_.samples),
            .elements = static_cast<uint32_t>(loss_.elements)};
  }
  static float* factors(const Bindings& memory) {
    return reinterpret_cast<float*>(memory.workspace);
  }

  const ElementLoss& loss_;
  const Rule rule_;
};

template <class Rule>
std::unique_ptr<Layer> make_loss(const LayerRequest& request, const LayerContext& context,
                                 const Rule& rule) {
  return std::make_unique<CudaElementLoss<Rule>>(request, context.device, rule);
}

}  // namespace

std::unique_ptr<Layer> make_euclidean_loss(const LayerRequest& request,
                                           const LayerContext& context) {
  return make_loss(request, context, EuclideanLossRule{});
}

std::unique_ptr<Layer> make_sigmoid_loss(const LayerRequest& request, const LayerContext& context) {
  return make_loss(request, context, SigmoidLossRule{});
}

std::unique_ptr<Layer> make_contrastive_loss(const LayerRequest& request,
                                             const LayerContext& context) {
  const auto& loss = static_cast<const ContrastiveLoss&>(request.definition);
  return make_loss(request, context,
                   ContrastiveLossRule{.margin = loss.margin, .legacy = loss.legacy});
}

std::unique_ptr<Layer> make_hinge_loss(const LayerRequest& request, const LayerContext& context) {
  const auto& loss = static_cast<const HingeLoss&>(request.definition);
  return make_loss(request, context, HingeLossRule{.squared = loss.norm == HingeLoss::Norm::kL2});
}

std::unique_ptr<Layer> make_multinomial_loss(const LayerRequest& request,
                                             const LayerContext& context) {
  return make_loss(request, context, MultinomialLossRule{});
}

}  // namespace poseidon::layers::cuda
