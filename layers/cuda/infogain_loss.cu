#include "layers/infogain_loss.h"

#include "layers/cuda/map.cuh"
#include "layers/cuda/softmax_rows.cuh"

namespace poseidon::layers::cuda {

namespace {

/// The infogain matrix H (classes x classes), and the samples' labels. A sample's row of H is the
/// row at the index of its label.
struct InfogainMatrix {
  const float* matrix;
  const float* labels;
  uint32_t samples, classes;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(matrix, bytes_of_elements<float>(int64_t{classes} * classes));
    visitor.reads(labels, bytes_of_elements<float>(samples));
  }
  POSEIDON_DEVICE const float* of(int64_t sample) const {
    return matrix + static_cast<int64_t>(labels[sample]) * classes;
  }
};

/// Computes for each sample the loss, the probabilities, and the sum of the row of H that the label
/// selects.
template <class Team>
struct InfogainForwardKernel {
  static constexpr const char* kName = "infogain_loss forward";
  static constexpr uint32_t kThreads = Team::kThreads;
  using Shared = typename Team::Shared;

  const float* scores;
  InfogainMatrix infogain;
  float* probabilities;
  float* sums;
  float* losses;

  void visit(MemoryVisitor& visitor) const {
    const int64_t bytes = bytes_of_elements<float>(int64_t{infogain.samples} * infogain.classes);
    infogain.visit(visitor);
    visitor.reads(scores, bytes);
    visitor.writes(probabilities, bytes);
    visitor.writes(sums, bytes_of_elements<float>(infogain.samples));
    visitor.writes(losses, bytes_of_elements<float>(infogain.samples));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread, Shared& shared) const {
    const int64_t sample = Team::row(thread);
    if (sample >= infogain.samples) return;  // the whole team returns
    const float* row = scores + sample * infogain.classes;
    const float* values = infogain.of(sample);
    float* target = probabilities + sample * infogain.classes;
    const RowSum exponentials = sum_exponentials<Team>(thread, shared, row, infogain.classes);
    const float inverse = 1 / static_cast<float>(exponentials.sum);
    const double logarithm = ::log(exponentials.sum), largest = exponentials.largest;
    double sum = 0, loss = 0;
    for (uint32_t c = Team::member(thread); c < infogain.classes; c += Team::kSize) {
      target[c] = exponential(row[c] - exponentials.largest) * inverse;
      const double value = values[c];
      sum += value;
      loss += value * (logarithm - (static_cast<double>(row[c]) - largest));
    }
    sum = Team::reduce(thread, shared, sum, Sum{});
    loss = Team::reduce(thread, shared, loss, Sum{});
    if (Team::member(thread) != 0) return;
    sums[sample] = static_cast<float>(sum);
    losses[sample] = static_cast<float>(loss);
  }
};

/// gradient[class] = scale * (h * probability[class] - H[label][class]) for each sample. h is the
/// sum of the row H[label].
struct InfogainBackwardKernel {
  static constexpr const char* kName = "infogain_loss backward";
  static constexpr uint32_t kThreads = 256;

  const float* probabilities;
  const float* sums;
  InfogainMatrix infogain;
  float* gradient;
  float scale;

  void visit(MemoryVisitor& visitor) const {
    const int64_t bytes = bytes_of_elements<float>(int64_t{infogain.samples} * infogain.classes);
    infogain.visit(visitor);
    visitor.reads(probabilities, bytes);
    visitor.reads(sums, bytes_of_elements<float>(infogain.samples));
    visitor.writes(gradient, bytes);
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const int64_t at = int64_t{thread.block()} * kThreads + thread.thread();
    if (at >= int64_t{infogain.samples} * infogain.classes) return;
    const int64_t sample = at / infogain.classes;
    const float value = infogain.of(sample)[at % infogain.classes];
    gradient[at] = scale * (sums[sample] * probabilities[at] - value);
  }
};

/// The workspace holds the probabilities, so that backward is one pass and does not need the
/// scores. After the probabilities, the workspace holds one value for each sample: the sum of the
/// row of H that the label selects.
class CudaInfogainLoss final : public CudaLayer {
 public:
  CudaInfogainLoss(const LayerRequest& request, CudaDevice& device)
      : CudaLayer(request, device), loss_(static_cast<const InfogainLoss&>(request.definition)) {
    needs_.input_formats = {format_of(request.input_shapes[0], DataType::kFp32), kPlainFp32};
    needs_.output_format = kPlainFp32;
    needs_.workspace_bytes = bytes_of_elements<float>(loss_.samples * (loss_.classes + 1));
    const auto matrix = std::as_bytes(std::span(loss_.rows));
    matrix_ = device.allocate(matrix.size(), MemoryKind::kDevice, "the infogain matrix");
    device.write(matrix, matrix_.as<std::byte>().first(matrix.size()));
  }

  void forward(const StepContext&, const Bindings& memory) override {
    with_team_for(loss_.classes, [&](auto team) {
      using Team = decltype(team);
      device_.launch(InfogainForwardKernel<Team>{.scores = memory.inputs[0].as<float>(),
                                                 .infogain = infogain(memory),
                                                 .probabilities = probabilities(memory),
                                                 .sums = sums(memory),
                                                 .losses = memory.output.as<float>()},
                     {.blocks = poseidon::cuda::blocks_for(loss_.samples, Team::kRowsPerBlock)});
    });
  }

  void backward(const StepContext& step, const Bindings& memory) override {
    if (!memory.input_gradients[0]) return;
    const InfogainBackwardKernel kernel{
        .probabilities = probabilities(memory),
        .sums = sums(memory),
        .infogain = infogain(memory),
        .gradient = memory.input_gradients[0].as<float>(),
        .scale = step.loss_scale * static_cast<float>(loss_.weight)};
    device_.launch_for(loss_.samples * loss_.classes, kernel);
  }

 private:
  InfogainMatrix infogain(const Bindings& memory) const {
    return {.matrix = matrix_.as<float>().data(),
            .labels = memory.inputs[1].as<float>(),
            .samples = static_cast<uint32_t>(loss_.samples),
            .classes = static_cast<uint32_t>(loss_.classes)};
  }
  static float* probabilities(const Bindings& memory) {
    return reinterpret_cast<float*>(memory.workspace);
  }
  float* sums(const Bindings& memory) const {
    return probabilities(memory) + loss_.samples * loss_.classes;
  }

  const InfogainLoss& loss_;
  Buffer matrix_;
};

}  // namespace

std::unique_ptr<Layer> make_infogain_loss(const LayerRequest& request,
                                          const LayerContext& context) {
  return std::make_unique<CudaInfogainLoss>(request, context.device);
}

}  // namespace poseidon::layers::cuda
