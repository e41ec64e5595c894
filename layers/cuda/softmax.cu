#include "layers/softmax.h"

#include "layers/cuda/map.cuh"
#include "layers/cuda/softmax_rows.cuh"

namespace poseidon::layers::cuda {

namespace {

/// output = e^input / (sum of e^input), for each row.
template <class Team>
struct SoftmaxForwardKernel {
  static constexpr const char* kName = "softmax forward";
  static constexpr uint32_t kThreads = Team::kThreads;
  using Shared = typename Team::Shared;

  const float* input;
  float* output;
  int64_t rows;
  uint32_t length;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(input, bytes_of_elements<float>(rows * length));
    visitor.writes(output, bytes_of_elements<float>(rows * length));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread, Shared& shared) const {
    const int64_t row = Team::row(thread);
    if (row >= rows) return;  // the whole team returns
    const float* in = input + row * length;
    float* out = output + row * length;
    const RowSum sum = sum_exponentials<Team>(thread, shared, in, length);
    const float inverse = 1 / static_cast<float>(sum.sum);
    for (uint32_t c = Team::member(thread); c < length; c += Team::kSize)
      out[c] = exponential(in[c] - sum.largest) * inverse;
  }
};

/// target = y * (g - (sum of y * g)), for each row. y is the output, and g its gradient.
template <class Team>
struct SoftmaxBackwardKernel {
  static constexpr const char* kName = "softmax backward";
  static constexpr uint32_t kThreads = Team::kThreads;
  using Shared = typename Team::Shared;

  const float* output;
  const float* gradient;
  float* target;
  int64_t rows;
  uint32_t length;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(output, bytes_of_elements<float>(rows * length));
    visitor.reads(gradient, bytes_of_elements<float>(rows * length));
    visitor.writes(target, bytes_of_elements<float>(rows * length));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread, Shared& shared) const {
    const int64_t row = Team::row(thread);
    if (row >= rows) return;
    const float *y = output + row * length, *g = gradient + row * length;
    float* out = target + row * length;
    float dot = 0;
    for (uint32_t c = Team::member(thread); c < length; c += Team::kSize) dot += y[c] * g[c];
    dot = Team::reduce(thread, shared, dot, Sum{});
    for (uint32_t c = Team::member(thread); c < length; c += Team::kSize)
      out[c] = y[c] * (g[c] - dot);
  }
};

/// Softmax over channels. The channels of each position form a row, since the format is channels
/// last for images and plain otherwise.
class CudaSoftmax final : public CudaLayer {
 public:
  CudaSoftmax(const LayerRequest& request, CudaDevice& device)
      : CudaLayer(request, device),
        rows_(request.output_shape.count() / request.output_shape.channels()),
        length_(static_cast<uint32_t>(request.output_shape.channels())) {
    const Format format = format_of(request.output_shape, DataType::kFp32);
    needs_.input_formats = {format};
    needs_.output_format = format;
    needs_.backward_reads_output = true;
  }

  void forward(const StepContext&, const Bindings& memory) override {
    with_team_for(length_, [&](auto team) {
      using Team = decltype(team);
      device_.launch(SoftmaxForwardKernel<Team>{memory.inputs[0].as<float>(),
                                                memory.output.as<float>(), rows_, length_},
                     {.blocks = poseidon::cuda::blocks_for(rows_, Team::kRowsPerBlock)});
    });
  }

  void backward(const StepContext&, const Bindings& memory) override {
    if (!memory.input_gradients[0]) return;
    const auto* gradient = combined_gradient(device_, memory, std::nullopt).as<float>();
    with_team_for(length_, [&](auto team) {
      using Team = decltype(team);
      device_.launch(
          SoftmaxBackwardKernel<Team>{memory.output.as<float>(), gradient,
                                      memory.input_gradients[0].as<float>(), rows_, length_},
          {.blocks = poseidon::cuda::blocks_for(rows_, Team::kRowsPerBlock)});
    });
  }

 private:
  int64_t rows_;
  uint32_t length_;
};

}  // namespace

std::unique_ptr<Layer> make_softmax(const LayerRequest& request, const LayerContext& context) {
  return std::make_unique<CudaSoftmax>(request, context.device);
}

}  // namespace poseidon::layers::cuda
