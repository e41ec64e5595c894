#include "layers/softmax.h"

#include "layers/cpu/cpu_layer.h"
#include "layers/cpu/softmax_rows.h"

namespace poseidon::layers::cpu {

namespace {

/// The number of adjacent positions that a thread computes at the same time, if the channels of one
/// position are not adjacent.
constexpr int64_t kRun = 64;
/// A value takes as long as this many elements of a simple loop.
constexpr int64_t kTimeOfValue = 4;

void normalize_row(const float* row, float* output, int64_t channels) {
  const float scale = 1 / exponentiate_row(row, output, channels).sum;
  for (int64_t c = 0; c < channels; ++c) output[c] *= scale;
}

void row_gradient(const float* output, const float* gradient, float* target, int64_t channels) {
  float dot = 0;
#pragma omp simd reduction(+ : dot)
  for (int64_t c = 0; c < channels; ++c) dot += output[c] * gradient[c];
  for (int64_t c = 0; c < channels; ++c) target[c] = output[c] * (gradient[c] - dot);
}

/// Like normalize_row, for `count` adjacent positions whose channels are `stride` apart.
void normalize_run(const float* input, float* output, int64_t channels, int64_t stride,
                   int64_t count) {
  float largest[kRun], sum[kRun] = {};
  std::copy_n(input, count, largest);
  for (int64_t c = 1; c < channels; ++c)
    for (int64_t i = 0; i < count; ++i) largest[i] = std::max(largest[i], input[c * stride + i]);
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t i = 0; i < count; ++i) {
      output[c * stride + i] = fast_exp(input[c * stride + i] - largest[i]);
      sum[i] += output[c * stride + i];
    }
  for (int64_t i = 0; i < count; ++i) sum[i] = 1 / sum[i];
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t i = 0; i < count; ++i) output[c * stride + i] *= sum[i];
}

void run_gradient(const float* output, const float* gradient, float* target, int64_t channels,
                  int64_t stride, int64_t count) {
  float dot[kRun] = {};
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t i = 0; i < count; ++i) dot[i] += output[c * stride + i] * gradient[c * stride + i];
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t i = 0; i < count; ++i)
      target[c * stride + i] = output[c * stride + i] * (gradient[c * stride + i] - dot[i]);
}

class CpuSoftmax final : public CpuLayer {
 public:
  CpuSoftmax(const LayerRequest& request, CpuDevice& device) : CpuLayer(request, device) {
    needs_.input_formats = {kPlainFp32};
    needs_.output_format = kPlainFp32;
    needs_.backward_reads_output = true;
  }

  void forward(const StepContext&, const Bindings& memory) override {
    const float* input = memory.inputs[0].as<float>();
    float* output = memory.output.as<float>();
    for_runs(memory.output.blocking(), [=](const Blocking& b, int64_t first, int64_t count) {
      if (b.area == 1)
        normalize_row(input + first, output + first, b.channels);
      else
        normalize_run(input + first, output + first, b.channels, b.area, count);
    });
  }

  void backward(const StepContext&, const Bindings& memory) override {
    float* target = memory.input_gradients[0].as<float>();
    if (target == nullptr) return;
    const auto* gradient = combined_gradient(team(), memory, std::nullopt).as<float>();
    const float* output = memory.output.as<float>();
    for_runs(memory.output.blocking(), [=](const Blocking& b, int64_t first, int64_t count) {
      if (b.area == 1)
        row_gradient(output + first, gradient + first, target + first, b.channels);
      else
        run_gradient(output + first, gradient + first, target + first, b.channels, b.area, count);
    });
  }

 private:
  /// Divides each sample into runs of at most kRun positions. Calls visit(blocking, offset of the
  /// run's first position, number of positions) for each run.
  template <class Visit>
  void for_runs(const Blocking& b, const Visit& visit) const {
    const int64_t runs = (b.area + kRun - 1) / kRun;
    const int64_t elements = kTimeOfValue * b.channels * std::min(kRun, b.area);
    for_each_pair(team(), b.samples, runs, elements, [&](int64_t sample, int64_t run) {
      visit(b, b.offset(sample, 0, run * kRun), std::min(kRun, b.area - run * kRun));
    });
  }
};

}  // namespace

std::unique_ptr<Layer> make_softmax(const LayerRequest& request, CpuDevice& device) {
  return std::make_unique<CpuSoftmax>(request, device);
}

}  // namespace poseidon::layers::cpu
