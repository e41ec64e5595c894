// Compares Poseidon's matrix product with oneDNN's, for the weight gradient of a linear layer. The
// product multiplies the layer's factors: its output gradients and its activations.
//
//     bench_product [THREADS] [REPEATS]
//
// Prints a table: for each linear layer and number of samples, the GFLOP/s of both libraries and
// their ratio. The values are medians of alternating runs. oneDNN computes the gradient in one
// call, in the memory format that it chooses.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "core/buffer.h"
#include "core/cpu/cpu_device.h"
#include "core/error.h"
#include "core/philox.h"
#include "layers/cpu/factors.h"

namespace {

using namespace poseidon;
using namespace poseidon::cpu;
using layers::FactorShape;
using layers::cpu::FactorRebuild;
using layers::cpu::Scratch;

/// Random numbers in memory like that of a net: aligned, and in huge pages.
Buffer random(int64_t count, uint64_t which) {
  RandomStream stream(1, RandomPurpose::kGeneration, which, 0);
  Buffer values(static_cast<size_t>(count) * sizeof(float));
  for (float& value : values.as<float>()) value = stream.next_uniform(-1, 1);
  return values;
}

double seconds_of(const std::function<void()>& run) {
  const auto begin = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// oneDNN's weight gradient of a linear layer.
class Peer {
 public:
  Peer(CpuDevice& device, const FactorShape& shape, int64_t samples)
      : device_(device),
        source_({samples, shape.columns}, kFloat, FormatTag::nc),
        target_({samples, shape.rows}, kFloat, FormatTag::nc) {
    const MemoryDesc any({shape.rows, shape.columns}, kFloat, FormatTag::any);
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
  const Buffer deltas = random(samples * shape.rows, 0);
  const Buffer activations = random(samples * shape.columns, 1);
  const MemoryDesc weight({shape.rows, shape.columns}, kFloat, FormatTag::AB16b64a);
  const FactorRebuild own(device, shape, samples, FactorRebuild::order_of(weight, shape).value());
  const Buffer gradient(weight.get_size()), scratch(own.scratch_bytes());
  layers::Bindings memory;
  memory.parameters = {{.gradient = gradient.as<float>().data()}};
  memory.scratch = scratch.as<std::byte>().data();
  Peer peer(device, shape, samples);
  std::vector<double> ours, theirs;
  for (int i = 0; i <= repeats; ++i) {
    const double our_seconds = seconds_of([&] {
      own.run({.deltas = deltas.as<float>().data(), .activations = activations.as<float>().data()},
              memory, nullptr);
    });
    const double their_seconds =
        seconds_of([&] { peer.run(activations.as<float>().data(), deltas.as<float>().data()); });
    if (i == 0) continue;  // not counted: it touches the memory for the first time
    ours.push_back(our_seconds);
    theirs.push_back(their_seconds);
  }
  const double operations = 2e-9 * static_cast<double>(samples * shape.rows * shape.columns);
  std::printf("| %ld x %ld | %ld | %.0f | %.0f | %.2f |\n", static_cast<long>(shape.rows),
              static_cast<long>(shape.columns), static_cast<long>(samples),
              operations / median(ours), operations / median(theirs),
              median(theirs) / median(ours));
}

}  // namespace

int main(int count, char** words) {
  try {
    CpuDevice device(count > 1 ? std::atoi(words[1]) : 1);
    const int repeats = count > 2 ? std::atoi(words[2]) : 9;
    std::printf(
        "%d threads\n\n| outputs x inputs | samples | Poseidon GFLOP/s | oneDNN GFLOP/s | Poseidon "
        "/ oneDNN "
        "|\n|---|---:|---:|---:|---:|\n",
        device.threads());
    for (const FactorShape& shape :
         {FactorShape{500, 800, false}, FactorShape{1000, 4096, false},
          FactorShape{4096, 4096, false}, FactorShape{4096, 9216, false}})
      for (const int64_t samples : {32, 128, 300, 1024, 4096}) {
        if (samples * shape.rows * shape.columns > 50'000'000'000) continue;
        compare(device, shape, samples, repeats);
      }
  } catch (const std::exception& fault) {
    std::fprintf(stderr, "bench_product: %s\n", fault.what());
    return 1;
  }
  return 0;
}
