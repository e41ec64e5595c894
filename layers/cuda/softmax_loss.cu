#include "layers/softmax_loss.h"

#include "layers/cuda/map.cuh"
#include "layers/cuda/rank.cuh"
#include "layers/cuda/softmax_rows.cuh"

namespace poseidon::layers::cuda {

namespace {

/// The labels of the samples. `labels` has one row, or with mixup three rows: first labels, second
/// labels, and the weights lambda of the second labels. The two labels of a sample differ unless
/// lambda is 0.
struct SampleLabels {
  const float* labels;
  uint32_t samples;
  bool mixed;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(labels, bytes_of_elements<float>(int64_t{mixed ? 3 : 1} * samples));
  }
  POSEIDON_DEVICE uint32_t label(int64_t sample) const {
    return static_cast<uint32_t>(labels[sample]);
  }
  POSEIDON_DEVICE uint32_t second(int64_t sample) const {
    return static_cast<uint32_t>(labels[samples + sample]);
  }
  POSEIDON_DEVICE float lambda(int64_t sample) const {
    return mixed ? labels[2 * int64_t{samples} + sample] : 0;
  }
};

/// Computes for each sample the probabilities, the loss, and whether the first label has the best
/// score or one of the five best. rank_of() defines the order of equal scores and NaNs.
template <class Team>
struct SoftmaxLossForwardKernel {
  static constexpr const char* kName = "softmax_loss forward";
  static constexpr uint32_t kThreads = Team::kThreads;
  using Shared = typename Team::Shared;

  const float* scores;
  SampleLabels labels;
  float* probabilities;
  float* scalars;
  uint32_t samples, classes;
  /// The smoothed target of a class: `everywhere`, plus `at_label` for the label. With mixup,
  /// lambda divides `at_label` between the two labels.
  double at_label, everywhere;

  void visit(MemoryVisitor& visitor) const {
    const int64_t count = int64_t{samples} * classes;
    visitor.reads(scores, bytes_of_elements<float>(count));
    labels.visit(visitor);
    visitor.writes(probabilities, bytes_of_elements<float>(count));
    visitor.writes(scalars, bytes_of_elements<float>(int64_t{3} * samples));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread, Shared& shared) const {
    const int64_t sample = Team::row(thread);
    if (sample >= samples) return;  // the whole team returns
    float* target = scalars + 3 * sample;
    const float* row = scores + sample * classes;
    const uint32_t label = labels.label(sample);
    const RowSum sum = sum_exponentials<Team>(thread, shared, row, classes);
    write_probabilities(thread, row, sum, probabilities + sample * classes);
    const float loss = loss_of(thread, shared, row, sample, sum);
    const uint32_t rank = rank_of<Team>(thread, shared, row, classes, label);
    if (Team::member(thread) == 0) {
      target[0] = loss;
      target[1] = rank < 1 ? 1 : 0;
      target[2] = rank < 5 ? 1 : 0;
    }
  }

  POSEIDON_DEVICE void write_probabilities(const Thread& thread, const float* row,
                                           const RowSum& sum, float* target) const {
    const float inverse = 1 / static_cast<float>(sum.sum);
    for (uint32_t c = Team::member(thread); c < classes; c += Team::kSize)
      target[c] = exponential(row[c] - sum.largest) * inverse;
  }

  POSEIDON_DEVICE float loss_of(const Thread& thread, Shared& shared, const float* row,
                                int64_t sample, const RowSum& sum) const {
    const double largest = sum.largest, own = row[labels.label(sample)];
    const double lambda = labels.lambda(sample);
    double score = own - largest;
    if (lambda > 0) score += lambda * (static_cast<double>(row[labels.second(sample)]) - own);
    double expected = at_label * score;
    if (everywhere > 0) {
      double all = 0;
      for (uint32_t c = Team::member(thread); c < classes; c += Team::kSize)
        all += static_cast<double>(row[c]) - largest;
      expected += everywhere * Team::reduce(thread, shared, all, Sum{});
    }
    return static_cast<float>(::log(sum.sum) - expected);
  }
};

/// gradient = scale * (probability - smoothed target) for each class. A sample has one or more
/// blocks.
struct SoftmaxLossBackwardKernel {
  static constexpr const char* kName = "softmax_loss backward";
  static constexpr uint32_t kThreads = 256;

  const float* probabilities;
  SampleLabels labels;
  float* gradient;
  uint32_t samples, classes;
  float scale, everywhere, at_label;  ///< the last two as in SoftmaxLossForwardKernel

  void visit(MemoryVisitor& visitor) const {
    const int64_t count = int64_t{samples} * classes;
    visitor.reads(probabilities, bytes_of_elements<float>(count));
    labels.visit(visitor);
    visitor.writes(gradient, bytes_of_elements<float>(count));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const uint32_t sample = thread.block() / blocks_per_sample();
    const uint32_t c = thread.block() % blocks_per_sample() * kThreads + thread.thread();
    if (c >= classes) return;
    const int64_t at = int64_t{sample} * classes + c;
    float distance = probabilities[at] - everywhere;
    const float lambda = labels.lambda(sample);
    if (c == labels.label(sample)) distance -= (1 - lambda) * at_label;
    if (lambda > 0 && c == labels.second(sample)) distance -= lambda * at_label;
    gradient[at] = scale * distance;
  }

  POSEIDON_DEVICE uint32_t blocks_per_sample() const { return (classes + kThreads - 1) / kThreads; }
};

/// The workspace holds the probabilities, so that backward is one pass and does not need the
/// scores.
class CudaSoftmaxLoss final : public CudaLayer {
 public:
  CudaSoftmaxLoss(const LayerRequest& request, CudaDevice& device)
      : CudaLayer(request, device),
        loss_(static_cast<const SoftmaxLoss&>(request.definition)),
        samples_(static_cast<uint32_t>(loss_.samples)),
        classes_(static_cast<uint32_t>(loss_.classes)) {
    needs_.input_formats = {format_of(request.input_shapes[0], DataType::kFp32), kPlainFp32};
    needs_.output_format = kPlainFp32;
    needs_.workspace_bytes = bytes_of_elements<float>(loss_.samples * loss_.classes);
  }

  void forward(const StepContext& step, const Bindings& memory) override {
    with_team_for(classes_, [&](auto team) {
      using Team = decltype(team);
      device_.launch(SoftmaxLossForwardKernel<Team>{.scores = memory.inputs[0].as<float>(),
                                                    .labels = labels(step, memory),
                                                    .probabilities = probabilities(memory),
                                                    .scalars = memory.output.as<float>(),
                                                    .samples = samples_,
                                                    .classes = classes_,
                                                    .at_label = 1 - loss_.label_smoothing,
                                                    .everywhere = loss_.label_smoothing / classes_},
                     {.blocks = poseidon::cuda::blocks_for(samples_, Team::kRowsPerBlock)});
    });
  }

  void backward(const StepContext& step, const Bindings& memory) override {
    if (!memory.input_gradients[0]) return;
    const auto smoothing = static_cast<float>(loss_.label_smoothing);
    using Kernel = SoftmaxLossBackwardKernel;
    device_.launch(Kernel{.probabilities = probabilities(memory),
                          .labels = labels(step, memory),
                          .gradient = memory.input_gradients[0].as<float>(),
                          .samples = samples_,
                          .classes = classes_,
                          .scale = step.loss_scale * static_cast<float>(loss_.weight),
                          .everywhere = smoothing / static_cast<float>(classes_),
                          .at_label = 1 - smoothing},
                   {.blocks = samples_ * poseidon::cuda::blocks_for(classes_, Kernel::kThreads)});
  }

 private:
  SampleLabels labels(const StepContext& step, const Bindings& memory) const {
    return {.labels = memory.inputs[1].as<float>(),
            .samples = samples_,
            .mixed = loss_.mixed && step.phase == Phase::kTrain};
  }
  static float* probabilities(const Bindings& memory) {
    return reinterpret_cast<float*>(memory.workspace);
  }

  const SoftmaxLoss& loss_;
  uint32_t samples_, classes_;
};

}  // namespace

std::unique_ptr<Layer> make_softmax_loss(const LayerRequest& request, const LayerContext& context) {
  return std::make_unique<CudaSoftmaxLoss>(request, context.device);
}

}  // namespace poseidon::layers::cuda
