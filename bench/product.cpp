// Compares Poseidon's matrix products with oneDNN's, for the passes of linear layers and of
// convolutions. The weight gradient of a linear layer is the product of its factors: its output
// gradients and its activations.
//
//     bench_product [THREADS] [REPEATS] [gradient|forward|backward|convolution]
//
// Prints a table for the named pass of linear layers or for convolutions, or all tables: the
// GFLOP/s of both libraries and their ratio. The values are medians of alternating runs. oneDNN
// computes a pass of a linear layer in one call, in the memory format that it chooses. For
// convolutions, "direct" is the engine's direct method, which is oneDNN's code in most geometries.

#include <omp.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "bench/product_convolution.h"
#include "bench/product_linear.h"
#include "bench/product_timing.h"
#include "core/cpu/cpu_device.h"
#include "core/error.h"
#include "layers/cpu/factors.h"
#include "layers/cpu/linear_product.h"

namespace {

using namespace poseidon;
using namespace poseidon::cpu;
using layers::FactorShape;
using layers::cpu::FactorRebuild;
using layers::cpu::Scratch;

/// oneDNN's weight gradient of a linear layer.
class Peer {
 public:
  Peer(CpuDevice& device, const FactorShape& shape, int64_t samples)
      : device_(device),
        source_({samples, shape.activations}, kFloat, FormatTag::nc),
        target_({samples, shape.deltas}, kFloat, FormatTag::nc) {
    const MemoryDesc any({shape.deltas, shape.activations}, kFloat, FormatTag::any);
    const auto forward = describe_forward<dnnl::inner_product_forward>(
        device.engine(), user_scratchpad(), dnnl::prop_kind::forward_training, source_, any,
        target_);
    description_ = describe_backward<dnnl::inner_product_backward_weights>(
        device.engine(), user_scratchpad(), forward, source_, any, target_);
    primitive_ = dnnl::inner_product_backward_weights(description_);
    gradient_ = Buffer(description_.diff_weights_desc().get_size());
    scratch_ = Buffer(Scratch::rounded(description_.scratchpad_desc().get_size()));
  }

  void run(float* activations, float* deltas) {
    Scratch scratch(scratch_.as<std::byte>().data());
    layers::cpu::Arguments arguments(device_);
    arguments.add(DNNL_ARG_SRC, source_, activations);
    arguments.add(DNNL_ARG_DIFF_DST, target_, deltas);
    arguments.add(DNNL_ARG_DIFF_WEIGHTS, description_.diff_weights_desc(), gradient_.data());
    arguments.run(primitive_, description_.scratchpad_desc(), scratch);
  }

 private:
  CpuDevice& device_;
  MemoryDesc source_, target_;
  dnnl::inner_product_backward_weights::primitive_desc description_;
  dnnl::inner_product_backward_weights primitive_;
  Buffer gradient_, scratch_;
};

void compare(CpuDevice& device, const FactorShape& shape, int64_t samples, int repeats) {
  const Buffer deltas = bench::random(samples * shape.deltas, 0);
  const Buffer activations = bench::random(samples * shape.activations, 1);
  const MemoryDesc weight = layers::cpu::product::linear_weight_order(
      {.samples = samples, .inputs = shape.activations, .outputs = shape.deltas});
  const FactorRebuild own(device, shape, samples);
  const Buffer gradient(weight.get_size()), scratch(own.scratch_bytes());
  layers::Bindings memory;
  memory.parameters = {{.gradient = gradient.as<float>().data()}};
  memory.scratch = scratch.as<std::byte>().data();
  Peer peer(device, shape, samples);
  const bench::Times times = bench::compare_times(
      [&] {
        own.run(
            {.deltas = deltas.as<float>().data(), .activations = activations.as<float>().data()},
            memory, nullptr);
      },
      [&] { peer.run(activations.as<float>().data(), deltas.as<float>().data()); }, repeats);
  const double operations = 2e-9 * static_cast<double>(samples * shape.deltas * shape.activations);
  std::printf("| %ld x %ld | %ld | %.0f | %.0f | %.2f |\n", static_cast<long>(shape.deltas),
              static_cast<long>(shape.activations), static_cast<long>(samples),
              operations / times.ours, operations / times.theirs, times.theirs / times.ours);
}

void compare_gradients(CpuDevice& device, int repeats) {
  std::printf(
      "Weight gradient of a linear layer\n\n| outputs x inputs | samples | Poseidon GFLOP/s | "
      "oneDNN GFLOP/s | Poseidon / oneDNN |\n|---|---:|---:|---:|---:|\n");
  for (const FactorShape& shape : {FactorShape{500, 800, false}, FactorShape{1000, 4096, false},
                                   FactorShape{4096, 4096, false}, FactorShape{4096, 9216, false}})
    for (const int64_t samples : {32, 128, 300, 1024, 4096}) {
      if (samples * shape.deltas * shape.activations > 50'000'000'000) continue;
      compare(device, shape, samples, repeats);
    }
}

}  // namespace

int main(int count, char** words) {
  try {
    CpuDevice device(count > 1 ? std::atoi(words[1]) : 1);
    omp_set_num_threads(device.threads());  // for oneDNN's primitives
    const int repeats = count > 2 ? std::atoi(words[2]) : 9;
    const std::string_view name = count > 3 ? words[3] : "";
    std::printf("%d threads\n\n", device.threads());
    if (name.empty() || name == "gradient") compare_gradients(device, repeats);
    if (name.empty() || name == "forward") bench::compare_linear_forward(device, repeats);
    if (name.empty() || name == "backward") bench::compare_linear_backward_data(device, repeats);
    if (name.empty() || name == "convolution") bench::compare_convolutions(device, repeats);
  } catch (const std::exception& fault) {
    std::fprintf(stderr, "bench_product: %s\n", fault.what());
    return 1;
  }
  return 0;
}
