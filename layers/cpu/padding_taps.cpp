#include "layers/cpu/padding_taps.h"

#include <algorithm>

#include "layers/cpu/scratch.h"

namespace poseidon::layers::cpu {

namespace {

/// For each tap of an axis: whether the tap reads a cell of the input in any window.
std::vector<bool> taps_that_meet_input(const Convolution& c, size_t axis) {
  const int axis_of_shape = static_cast<int>(axis) + 2;
  const int64_t stride = c.stride[axis];
  std::vector<bool> meets;
  for (int64_t tap = 0; tap < c.kernel[axis]; ++tap) {
    const int64_t cell = tap * c.dilation[axis] - c.padding.before[axis];  // in window 0
    const int64_t window = cell >= 0 ? 0 : (stride - 1 - cell) / stride;
    meets.push_back(window < c.output[axis_of_shape] &&
                    cell + window * stride < c.input[axis_of_shape]);
  }
  return meets;
}

/// For each tap of the kernel: 1, or 0 if the tap reads only padding. Empty if all are 1.
std::vector<float> kernel_mask(const Convolution& convolution) {
  const std::vector<bool> rows = taps_that_meet_input(convolution, 0);
  const std::vector<bool> columns = taps_that_meet_input(convolution, 1);
  std::vector<float> mask;
  for (const bool row : rows)
    for (const bool column : columns) mask.push_back(row && column ? 1.0F : 0.0F);
  if (std::ranges::count(mask, 0.0F) == 0) mask.clear();
  return mask;
}

}  // namespace

PaddingTaps::PaddingTaps(CpuDevice& device, const Convolution& convolution,
                         const OnednnConvolution& onednn, const MemoryDesc& weight) {
  const std::vector<float> kernel = kernel_mask(convolution);
  if (kernel.empty()) return;
  const int64_t kernels = convolution.outputs * convolution.input.channels() / convolution.groups;
  std::vector<float> canonical;
  canonical.reserve(kernel.size() * static_cast<size_t>(kernels));
  for (int64_t i = 0; i < kernels; ++i)
    canonical.insert(canonical.end(), kernel.begin(), kernel.end());
  std::vector<float> mask(weight.get_size() / sizeof(float));
  PreparedReorder(device, onednn.canonical_weight(), weight)
      .run(device, canonical.data(), mask.data());
  for (auto end = mask.begin(); end != mask.end();) {
    const auto first = std::find(end, mask.end(), 0.0F);
    end = std::find_if(first, mask.end(), [](float value) { return value != 0; });
    if (first != end) runs_.push_back({first - mask.begin(), end - first});
  }
}

void PaddingTaps::zero(float* gradient) const {
  for (const Run& run : runs_) std::fill_n(gradient + run.first, run.count, 0.0F);
}

}  // namespace poseidon::layers::cpu
