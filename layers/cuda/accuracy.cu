#include "layers/accuracy.h"

#include "layers/cuda/clear.cuh"
#include "layers/cuda/map.cuh"
#include "layers/cuda/rank.cuh"

namespace poseidon::layers::cuda {

namespace {

/// out[sample][k] = 1 if the rank of the sample's label (rank_of(); 0: greatest score) is below
/// top_k[k], else 0. One team of threads (layers/cuda/reduce.cuh) processes one sample.
template <class Team>
struct AccuracyKernel {
  static constexpr const char* kName = "accuracy";
  static constexpr uint32_t kThreads = Team::kThreads;
  using Shared = typename Team::Shared;

  const float* scores;
  const float* labels;
  float* out;
  uint32_t samples, classes, ranks;
  uint32_t top_k[kMaxRanks];

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(scores, bytes_of_elements<float>(int64_t{samples} * classes));
    visitor.reads(labels, bytes_of_elements<float>(samples));
    visitor.writes(out, bytes_of_elements<float>(int64_t{samples} * ranks));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread, Shared& shared) const {
    const int64_t sample = Team::row(thread);
    if (sample >= samples) return;  // the whole team returns
    const uint32_t rank = rank_of<Team>(thread, shared, scores + sample * classes, classes,
                                        static_cast<uint32_t>(labels[sample]));
    if (Team::member(thread) != 0) return;
#pragma unroll
    for (uint32_t k = 0; k < kMaxRanks; ++k)
      if (k < ranks) out[sample * ranks + k] = rank < top_k[k] ? 1 : 0;
  }
};

class CudaAccuracy final : public CudaLayer {
 public:
  CudaAccuracy(const LayerRequest& request, CudaDevice& device)
      : CudaLayer(request, device), accuracy_(static_cast<const Accuracy&>(request.definition)) {
    needs_.input_formats = {format_of(request.input_shapes[0], DataType::kFp32), kPlainFp32};
    needs_.output_format = kPlainFp32;
  }

  void forward(const StepContext&, const Bindings& memory) override {
    const auto samples = static_cast<uint32_t>(accuracy_.samples),
               classes = static_cast<uint32_t>(accuracy_.classes);
    with_team_for(classes, [&](auto team) {
      using Team = decltype(team);
      AccuracyKernel<Team> kernel{.scores = memory.inputs[0].as<float>(),
                                  .labels = memory.inputs[1].as<float>(),
                                  .out = memory.output.as<float>(),
                                  .samples = samples,
                                  .classes = classes,
                                  .ranks = static_cast<uint32_t>(accuracy_.top_k.size()),
                                  .top_k = {}};
      for (uint32_t k = 0; k < kernel.ranks; ++k)
        kernel.top_k[k] = static_cast<uint32_t>(accuracy_.top_k[k]);
      device_.launch(kernel, {.blocks = poseidon::cuda::blocks_for(samples, Team::kRowsPerBlock)});
    });
  }
  void backward(const StepContext&, const Bindings& memory) override {
    if (memory.input_gradients[0]) clear(device_, memory.input_gradients[0]);
  }

 private:
  const Accuracy& accuracy_;
};

}  // namespace

std::unique_ptr<Layer> make_accuracy(const LayerRequest& request, const LayerContext& context) {
  return std::make_unique<CudaAccuracy>(request, context.device);
}

}  // namespace poseidon::layers::cuda
