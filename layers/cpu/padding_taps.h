#pragma once

#include <cstdint>
#include <vector>

#include "core/cpu/cpu_device.h"
#include "layers/cpu/convolution_onednn.h"

namespace poseidon::layers::cpu {

/// The taps of a kernel that read only padding in every window. Examples are the outer taps on an
/// image of 1 x 1 pixels with stride 2. The weight of such a tap has no effect, and its gradient is
/// zero. oneDNN 2.6 leaves this gradient uninitialized in its bf16 pass if the stride exceeds the
/// input's width. For safety, the backward weights pass calls zero() with all versions of oneDNN
/// and on all processors.
class PaddingTaps {
 public:
  /// `weight` is the order of the gradient, in fp32.
  PaddingTaps(poseidon::cpu::CpuDevice& device, const Convolution& convolution,
              const OnednnConvolution& onednn, const poseidon::cpu::MemoryDesc& weight);

  /// Writes zero to the gradient of these taps. If such taps exist, also writes zero to all padding
  /// lanes.
  void zero(float* gradient) const;

 private:
  struct Run {
    int64_t first, count;  ///< elements in the order of the gradient
  };
  std::vector<Run> runs_;
};

}  // namespace poseidon::layers::cpu
