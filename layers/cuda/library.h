#pragma once

#include <string>
#include <string_view>

#include "core/cuda/gpu_list.h"
#include "core/cuda/settings.h"
#include "core/error.h"
#include "layers/backend.h"

/// The GPU half of a build, lib/libposeidon_cuda.so: what a program and it know of each other.
/// Exceptions of core/error.h cross over, everything else by these.
namespace poseidon::layers::cuda {

/// What a job asks of a GPU.
struct GpuRequest {
  int index = 0;  ///< of the machine's GPUs
  poseidon::cuda::Settings settings;
};

class Library {
 public:
  virtual ~Library() = default;
  /// The machine's GPUs. Throws ConfigError where there are none that can be used, and says why.
  virtual poseidon::cuda::GpuList gpus() const = 0;
  /// A GPU with all that computes on it. Throws ConfigError too.
  virtual Backend make_backend(const GpuRequest& request) const = 0;
};

/// A program and its GPU half share classes, so they are of one version and one compiler.
inline std::string build_of(std::string_view version) { return text(version, ", ", __VERSION__); }

/// What the library has to be found by, in C's names: the build it is of, and itself.
inline constexpr const char* kBuildEntry = "poseidon_cuda_build";
inline constexpr const char* kLibraryEntry = "poseidon_cuda_library";
using BuildEntry = const char* (*)();
using LibraryEntry = const Library* (*)();

}  // namespace poseidon::layers::cuda
