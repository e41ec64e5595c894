#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace poseidon::cuda {

/// A GPU of this machine.
struct Gpu {
  std::string name;
  size_t memory_bytes = 0;
  int major = 0, minor = 0;  ///< compute capability
};

/// The GPUs of this machine, by index, and the CUDA versions, such as "13.0".
struct GpuList {
  std::vector<Gpu> gpus;
  std::string driver;   ///< the newest CUDA version that the machine's driver supports
  std::string runtime;  ///< the CUDA version of this build
  /// The libraries for matrix products and convolutions, with versions, such as
  /// "cuDNN 9.19.0, cuBLASLt 13.0.2".
  std::string libraries;
};

}  // namespace poseidon::cuda
