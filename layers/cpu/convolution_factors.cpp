#include "layers/cpu/convolution_factors.h"

#include <algorithm>

#include "layers/cpu/reorder.h"
#include "layers/cpu/scratch.h"

namespace poseidon::layers::cpu {

namespace {

constexpr Format kFactorFormat{Layout::kChannelsLast, DataType::kFp32};

/// Elements of a gradient that a thread passes to a sink at a time: 64 KiB.
constexpr int64_t kElementsOfPiece = 16384;

/// The cells that a convolution without padding, of kernel 1 x 1, reads. Both memories are channels
/// last.
void copy_cells(ThreadTeam& team, const Convolution& convolution, const float* input, float* to) {
  const Shape &from = convolution.input, &output = convolution.output;
  const int64_t channels = from.channels(), rows = output.height(), columns = output.width();
  for_each_pair(team, output.samples(), rows, columns * channels, [&](int64_t sample, int64_t row) {
    for (int64_t column = 0; column < columns; ++column) {
      const int64_t cell = (sample * from.height() + row * convolution.stride[0]) * from.width() +
                           column * convolution.stride[1];
      std::copy_n(input + cell * channels, channels,
                  to + ((sample * rows + row) * columns + column) * channels);
    }
  });
}

}  // namespace

ConvolutionFactors::ConvolutionFactors(const ConvolutionParts& parts, int64_t samples)
    : device_(parts.device),
      convolution_(parts.convolution),
      stacked_(parts.convolution.of_factors(samples)),
      weight_elements_(parts.kept_weight.get_size() / sizeof(float)),
      gradient_(make_gradient_in_order(
          {.device = parts.device,
           .convolution = stacked_,
           .onednn = parts.onednn,
           .formats = {.in = kFactorFormat.layout, .out = kFactorFormat.layout},
           .relu = std::nullopt,
           .training = true,
           .forward = parts.forward,
           .kept_weight = parts.kept_weight})) {}

size_t ConvolutionFactors::copy_bytes() const {
  if (stacked_.stride == convolution_.stride) return 0;
  return Scratch::rounded(static_cast<size_t>(convolution_.input.count()) * sizeof(float));
}

size_t ConvolutionFactors::scratch_bytes() const {
  return std::max(copy_bytes(), gradient_->scratch_bytes());
}

void ConvolutionFactors::write(const Bindings& memory, const Tensor& gradient,
                               const FactorMemory& factors) const {
  reorder(device_.team(), gradient, {factors.deltas, convolution_.output, kFactorFormat});
  if (copy_bytes() == 0)
    return reorder(device_.team(), memory.inputs[0],
                   {factors.activations, convolution_.input, kFactorFormat});
  auto* copy = reinterpret_cast<float*>(memory.scratch);
  reorder(device_.team(), memory.inputs[0], {copy, convolution_.input, kFactorFormat});
  copy_cells(device_.team(), convolution_, copy, factors.activations);
}

void ConvolutionFactors::rebuild(const FactorMemory& factors, const Bindings& memory,
                                 const GradientSink* sink) const {
  Bindings stack;
  stack.inputs = {{factors.activations, stacked_.input, kFactorFormat}};
  stack.parameters = memory.parameters;
  stack.scratch = memory.scratch;
  gradient_->run(stack, {factors.deltas, stacked_.output, kFactorFormat});
  if (sink == nullptr) return;
  const auto weight_elements = static_cast<int64_t>(weight_elements_);
  const float* weight = memory.parameters[0].gradient;
  device_.team().run_ranges(weight_elements, kElementsOfPiece,
                            [&](int64_t first, int64_t end, int) {
                              (*sink)(0, first, {weight + first, static_cast<size_t>(end - first)});
                            });
  if (stacked_.bias)
    (*sink)(1, 0, {memory.parameters[1].gradient, static_cast<size_t>(stacked_.outputs)});
}

}  // namespace poseidon::layers::cpu
