#pragma once

#include <string>
#include <string_view>

#include "core/cuda/gpu_list.h"
#include "core/cuda/settings.h"
#include "core/error.h"
#include "layers/backend.h"

/// The interface between a program and the GPU library, lib/libposeidon_cuda.so. The program calls
/// the library only through these declarations and the objects that they return. The library may
/// throw the exceptions of core/error.h.
namespace poseidon::layers::cuda {

/// The GPU that a job uses, and its settings.
struct GpuRequest {
  int index = 0;  ///< index among the GPUs of the machine
  poseidon::cuda::Settings settings;
};

class Library {
 public:
  virtual ~Library() = default;
  /// Returns the GPUs of the machine. Throws ConfigError with the reason if no GPU can be used.
  virtual poseidon::cuda::GpuList gpus() const = 0;
  /// Creates the device of a GPU, its layer factory and its updater. Throws ConfigError if the GPU
  /// cannot be used, and RunError if cuDNN or cuBLASLt cannot use it.
  virtual Backend make_backend(const GpuRequest& request) const = 0;
};

/// Identifies a build: project version and compiler. The program and the GPU library share C++
/// classes, so both must be of the same build.
inline std::string build_of(std::string_view version) { return text(version, ", ", __VERSION__); }

/// Names and types of the C functions that the GPU library exports. A BuildEntry returns the build
/// (build_of), a LibraryEntry the Library object.
inline constexpr const char* kBuildEntry = "poseidon_cuda_build";
inline constexpr const char* kLibraryEntry = "poseidon_cuda_library";
using BuildEntry = const char* (*)();
using LibraryEntry = const Library* (*)();

}  // namespace poseidon::layers::cuda
