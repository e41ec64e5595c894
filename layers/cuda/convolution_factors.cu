#include "layers/cuda/convolution_factors.h"

#include "layers/cuda/channels.cuh"
#include "layers/cuda/divisor.cuh"

namespace poseidon::layers::cuda {

namespace {

/// Copies the cells that a convolution without padding, of kernel 1 x 1, reads. Both memories are
/// channels last. A thread copies kWidth channels of one cell.
template <class Element, int kWidth>
struct CellsKernel {
  static constexpr const char* kName = "cells of factors";
  static constexpr uint32_t kThreads = 256;

  const Element* in;
  float* out;
  uint32_t height, width;  ///< of the input
  uint32_t vertical_stride, horizontal_stride;
  uint32_t count;  ///< threads with work
  uint32_t samples;
  Divisor groups, columns, rows;  ///< groups of channels, cells of the output

  void visit(MemoryVisitor& visitor) const {
    const int64_t channels = int64_t{groups.value()} * kWidth;
    visitor.reads(in, bytes_of_elements<Element>(int64_t{samples} * height * width * channels));
    visitor.writes(out, bytes_of_elements<float>(int64_t{count} * kWidth));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const uint32_t number = thread.block() * kThreads + thread.thread();
    if (number >= count) return;
    uint32_t sample = number;
    const uint32_t group = groups.take_from(sample);
    const uint32_t x = columns.take_from(sample) * horizontal_stride;
    const uint32_t y = rows.take_from(sample) * vertical_stride;
    const int64_t cell = (int64_t{sample} * height + y) * width + x;
    store_channels<kWidth>(out + int64_t{number} * kWidth,
                           load_channels<kWidth>(in + (cell * groups.value() + group) * kWidth));
  }
};

void issue_cells(CudaDevice& device, const Convolution& convolution, const Tensor& input,
                 float* to) {
  const auto number = [](int64_t value) { return static_cast<uint32_t>(value); };
  const Shape &from = convolution.input, &cells = convolution.output;
  with_element_of(input.format.type, [&](auto element) {
    using Element = decltype(element);
    with_channels_of<Element>(from.channels(), [&](auto each) {
      const int64_t groups = from.channels() / each;
      const CellsKernel<Element, each> kernel{
          .in = input.as<Element>(),
          .out = to,
          .height = number(from.height()),
          .width = number(from.width()),
          .vertical_stride = number(convolution.stride[0]),
          .horizontal_stride = number(convolution.stride[1]),
          .count = number(cells.samples() * cells.area() * groups),
          .samples = number(from.samples()),
          .groups = Divisor(number(groups)),
          .columns = Divisor(number(cells.width())),
          .rows = Divisor(number(cells.height()))};
      device.launch_for(kernel.count, kernel);
    });
  });
}

}  // namespace

ConvolutionFactors::ConvolutionFactors(CudaDevice& device, const Convolution& convolution,
                                       int64_t samples, size_t passes_bytes)
    : device_(device),
      convolution_(convolution),
      stacked_(convolution.of_factors(samples)),
      scratch_(*convolution.factors(), samples, passes_bytes) {}

void ConvolutionFactors::write(const Bindings& memory, const Tensor& gradient,
                               const FactorMemory& factors) const {
  const FactorMemory scratch = scratch_.memory(memory.scratch);
  write_values(gradient, factors.deltas, scratch.deltas);
  const Tensor& input = memory.inputs[0];
  if (stacked_.stride == convolution_.stride)
    return write_values(input, factors.activations, scratch.activations);
  issue_cells(device_, convolution_, input, scratch.activations);
  const int64_t count = convolution_.input.samples() * stacked_.input.sample_count();
  device_.copy(scratch.activations, factors.activations, bytes_of_elements<float>(count));
}

void ConvolutionFactors::write_values(const Tensor& from, float* to, float* scratch) const {
  const void* values = from.data;
  if (from.format.type != DataType::kFp32) {
    issue_reorder(device_, from, {scratch, from.shape, {from.format.layout, DataType::kFp32}});
    values = scratch;
  }
  device_.copy(values, to, bytes_of_elements<float>(count_of(from)));
}

void ConvolutionFactors::rebuild(const FactorMemory& factors, const Bindings& memory) const {
  rebuild_gradients(device_, stacked_, scratch_.copy(device_, factors, memory.scratch),
                    memory.parameters[0].gradient,
                    stacked_.bias ? memory.parameters[1].gradient : nullptr);
}

}  // namespace poseidon::layers::cuda
