#include "bench/product_linear.h"

#include <array>
#include <cstdio>

#include "bench/product_timing.h"
#include "core/cpu/onednn.h"
#include "layers/cpu/linear_product.h"
#include "layers/cpu/scratch.h"

namespace poseidon::bench {

namespace {

using namespace poseidon::cpu;
using layers::cpu::Arguments, layers::cpu::product::LinearBackwardData,
    layers::cpu::product::LinearForward, layers::cpu::product::LinearSizes, layers::cpu::Scratch;

using ForwardPrimitive = dnnl::inner_product_forward;
using BackwardPrimitive = dnnl::inner_product_backward_data;

/// The tensors of a linear layer, in oneDNN's terms.
struct Tensors {
  explicit Tensors(const LinearSizes& sizes)
      : source({sizes.samples, sizes.inputs}, kFloat, FormatTag::nc),
        target({sizes.samples, sizes.outputs}, kFloat, FormatTag::nc),
        weight({sizes.outputs, sizes.inputs}, kFloat, FormatTag::any),
        bias({sizes.outputs}, kFloat, FormatTag::x) {}

  MemoryDesc source, target, weight, bias;
};

auto describe_forward_pass(CpuDevice& device, const Tensors& tensors) {
  return describe_forward<ForwardPrimitive>(device.engine(), user_scratchpad(),
                                            dnnl::prop_kind::forward_training, tensors.source,
                                            tensors.weight, tensors.bias, tensors.target);
}

auto describe_backward_pass(CpuDevice& device, const Tensors& tensors) {
  return describe_backward<BackwardPrimitive>(device.engine(), user_scratchpad(),
                                              describe_forward_pass(device, tensors),
                                              tensors.source, tensors.weight, tensors.target);
}

Buffer random_like(const MemoryDesc& tensor, uint64_t which) {
  return random(static_cast<int64_t>(tensor.get_size() / sizeof(float)), which);
}

float* floats(const Buffer& buffer) { return buffer.as<float>().data(); }

Times forward_times(CpuDevice& device, const LinearSizes& sizes, int repeats) {
  const Tensors tensors(sizes);
  const auto description = describe_forward_pass(device, tensors);
  const ForwardPrimitive primitive(description);
  const LinearForward own(sizes, device.team());
  const Buffer x = random_like(tensors.source, 0), y(tensors.target.get_size()),
               bias = random_like(tensors.bias, 1),
               our_weight = random_like(layers::cpu::product::linear_weight_order(sizes), 2),
               their_weight = random_like(description.weights_desc(), 2),
               our_scratch(own.scratch_bytes()),
               their_scratch(description.scratchpad_desc().get_size() + 64);
  return compare_times(
      [&] {
        own.run({.x = floats(x),
                 .weight = floats(our_weight),
                 .bias = floats(bias),
                 .relu = {},
                 .y = floats(y),
                 .scratch = floats(our_scratch)});
      },
      [&] {
        Scratch scratch(their_scratch.as<std::byte>().data());
        Arguments arguments(device);
        arguments.add(DNNL_ARG_SRC, tensors.source, x.data());
        arguments.add(DNNL_ARG_WEIGHTS, description.weights_desc(), their_weight.data());
        arguments.add(DNNL_ARG_BIAS, tensors.bias, bias.data());
        arguments.add(DNNL_ARG_DST, tensors.target, y.data());
        arguments.run(primitive, description.scratchpad_desc(), scratch);
      },
      repeats);
}

Times backward_times(CpuDevice& device, const LinearSizes& sizes, int repeats) {
  const Tensors tensors(sizes);
  const auto description = describe_backward_pass(device, tensors);
  const BackwardPrimitive primitive(description);
  const LinearBackwardData own(sizes, device.team());
  const Buffer dy = random_like(tensors.target, 0), dx(tensors.source.get_size()),
               our_weight = random_like(layers::cpu::product::linear_weight_order(sizes), 2),
               their_weight = random_like(description.weights_desc(), 2),
               our_scratch(own.scratch_bytes()),
               their_scratch(description.scratchpad_desc().get_size() + 64);
  return compare_times(
      [&] {
        own.run({.dy = floats(dy),
                 .weight = floats(our_weight),
                 .dx = floats(dx),
                 .scratch = floats(our_scratch)});
      },
      [&] {
        Scratch scratch(their_scratch.as<std::byte>().data());
        Arguments arguments(device);
        arguments.add(DNNL_ARG_DIFF_DST, tensors.target, dy.data());
        arguments.add(DNNL_ARG_WEIGHTS, description.weights_desc(), their_weight.data());
        arguments.add(DNNL_ARG_DIFF_SRC, tensors.source, dx.data());
        arguments.run(primitive, description.scratchpad_desc(), scratch);
      },
      repeats);
}

template <class TimesOf>
void print_table(CpuDevice& device, const char* pass, int repeats, const TimesOf& times_of) {
  std::printf(
      "\n%s\n\n| outputs x inputs | samples | Poseidon GFLOP/s | oneDNN GFLOP/s | Poseidon / "
      "oneDNN |\n|---|---:|---:|---:|---:|\n",
      pass);
  constexpr std::array<std::array<int64_t, 2>, 5> kWeights{
      {{10, 500}, {500, 800}, {1000, 4096}, {4096, 4096}, {4096, 9216}}};
  for (const auto& [outputs, inputs] : kWeights)
    for (const int64_t samples : {32, 100, 128, 300, 1024, 4096}) {
      if (samples * outputs * inputs > 50'000'000'000) continue;
      const Times times =
          times_of(device, {.samples = samples, .inputs = inputs, .outputs = outputs}, repeats);
      const double operations = 2e-9 * static_cast<double>(samples * outputs * inputs);
      std::printf("| %ld x %ld | %ld | %.0f | %.0f | %.2f |\n", static_cast<long>(outputs),
                  static_cast<long>(inputs), static_cast<long>(samples), operations / times.ours,
                  operations / times.theirs, times.theirs / times.ours);
      std::fflush(stdout);
    }
}

}  // namespace

void compare_linear_forward(CpuDevice& device, int repeats) {
  print_table(device, "Forward pass of a linear layer", repeats, forward_times);
}

void compare_linear_backward_data(CpuDevice& device, int repeats) {
  print_table(device, "Backward data pass of a linear layer", repeats, backward_times);
}

}  // namespace poseidon::bench
