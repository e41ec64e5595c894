#include "bench/product_convolution.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "bench/product_timing.h"
#include "layers/cpu/convolution_parts.h"

namespace poseidon::bench {

namespace {

using poseidon::cpu::CpuDevice;

struct ConvolutionCase {
  Shape input;
  int64_t outputs;
  std::array<int64_t, 2> kernel, stride, padding;
};

/// From few to many places, of first layers and of later layers.
const std::vector<ConvolutionCase> kConvolutions{{{3, 512, 10, 10}, 512, {3, 3}, {1, 1}, {1, 1}},
                                                 {{4, 256, 14, 14}, 256, {3, 3}, {1, 1}, {1, 1}},
                                                 {{4, 128, 28, 28}, 128, {3, 3}, {1, 1}, {1, 1}},
                                                 {{8, 64, 56, 56}, 64, {3, 3}, {1, 1}, {1, 1}},
                                                 {{4, 128, 56, 56}, 128, {3, 3}, {2, 2}, {1, 1}},
                                                 {{8, 3, 56, 56}, 64, {3, 3}, {1, 1}, {1, 1}},
                                                 {{1, 3, 224, 224}, 64, {7, 7}, {2, 2}, {3, 3}},
                                                 {{30, 3, 32, 32}, 32, {5, 5}, {1, 1}, {2, 2}},
                                                 {{4, 1024, 14, 14}, 256, {1, 1}, {1, 1}, {0, 0}},
                                                 {{8, 64, 56, 56}, 256, {1, 1}, {1, 1}, {0, 0}},
                                                 {{12, 40, 50, 50}, 24, {3, 3}, {1, 1}, {1, 1}}};

layers::Convolution convolution_of(const ConvolutionCase& each) {
  layers::Convolution convolution;
  convolution.name = "convolution";
  convolution.outputs = each.outputs;
  convolution.kernel = each.kernel;
  convolution.stride = each.stride;
  convolution.padding.before = convolution.padding.after = each.padding;
  convolution.bias = false;
  convolution.infer({&each.input, 1});
  return convolution;
}

/// The three passes of one convolution, by both libraries.
class ConvolutionComparison {
 public:
  ConvolutionComparison(CpuDevice& device, const ConvolutionCase& each)
      : convolution_(convolution_of(each)),
        onednn_(convolution_, std::nullopt, device.engine()),
        theirs_(layers::cpu::choose_parts(device, convolution_, onednn_, {})),
        ours_{.device = device,
              .convolution = convolution_,
              .onednn = onednn_,
              .formats = theirs_.formats,
              .relu = std::nullopt,
              .training = true,
              .forward = theirs_.forward,
              .kept_weight = product_weight(onednn_)} {
    memory_.inputs = {tensor(convolution_.input, theirs_.formats.in)};
    memory_.output = tensor(convolution_.output, theirs_.formats.out);
    memory_.input_gradients = {tensor(convolution_.input, theirs_.formats.in)};
    const auto weights = static_cast<int64_t>(
        std::max(theirs_.kept_weight.get_size(), ours_.kept_weight.get_size()) / sizeof(float));
    memory_.parameters = {{.value = fill(weights), .gradient = fill(weights)}};
  }

  void print(int repeats) {
    using namespace layers::cpu;
    print_pass("forward", repeats, make_product_forward(ours_), make_direct_forward(theirs_));
    print_pass("input gradient", repeats, make_product_backward_data(ours_),
               make_direct_backward_data(theirs_));
    print_pass("weight gradient", repeats, make_product_backward_weights(ours_),
               make_direct_backward_weights(theirs_));
  }

 private:
  using Pass = std::unique_ptr<layers::cpu::ConvolutionPass>;

  float* fill(int64_t count) {
    buffers_.push_back(random(count, buffers_.size()));
    return buffers_.back().as<float>().data();
  }
  Tensor tensor(const Shape& shape, Layout layout) {
    return {fill(stored_count(shape, layout)), shape, {layout, DataType::kFp32}};
  }

  void print_pass(const char* name, int repeats, const Pass& ours, const Pass& theirs) {
    if (theirs == nullptr) return;
    const Buffer scratch(std::max(ours->scratch_bytes(), theirs->scratch_bytes()) + 64);
    memory_.scratch = scratch.as<std::byte>().data();
    const Times times = compare_times([&] { ours->run(memory_, memory_.output); },
                                      [&] { theirs->run(memory_, memory_.output); }, repeats);
    const layers::Convolution& c = convolution_;
    const double operations = 2e-9 * static_cast<double>(c.multiply_adds());
    std::printf("| %ld x %ld x %ld | %ld x %ld | %s | %.0f | %.0f | %.2f |\n",
                static_cast<long>(c.output.samples() * c.output.area()),
                static_cast<long>(c.input.channels() * c.kernel[0] * c.kernel[1]),
                static_cast<long>(c.outputs), static_cast<long>(c.kernel[0]),
                static_cast<long>(c.kernel[1]), name, operations / times.ours,
                operations / times.theirs, times.theirs / times.ours);
    std::fflush(stdout);
  }

  std::vector<Buffer> buffers_;
  layers::Convolution convolution_;
  layers::cpu::OnednnConvolution onednn_;
  layers::cpu::ConvolutionParts theirs_, ours_;
  layers::Bindings memory_;
};

}  // namespace

void compare_convolutions(CpuDevice& device, int repeats) {
  std::printf(
      "\nPasses of convolutions, in the layout that the fixed rule chooses\n\n| places x depth x "
      "outputs | kernel | pass | Poseidon GFLOP/s | direct GFLOP/s | Poseidon "
      "/ direct |\n|---|---|---|---:|---:|---:|\n");
  for (const ConvolutionCase& each : kConvolutions)
    ConvolutionComparison(device, each).print(repeats);
}

}  // namespace poseidon::bench
