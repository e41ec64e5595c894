#pragma once

#include <filesystem>

#include "layers/cuda/library.h"

namespace poseidon::layers::cuda {

/// Opens the GPU library of this build. The file is ../lib/libposeidon_cuda.so, relative to the
/// program's folder. If it does not exist, the file is libposeidon_cuda.so in the program's folder.
/// The library is never unloaded. Throws ConfigError if neither file exists, if the file cannot be
/// loaded (a CUDA library may be missing), or if it is not the GPU library of this build.
const Library& open_library();

/// Opens the GPU library of a program in `folder`.
const Library& open_library(const std::filesystem::path& folder);

}  // namespace poseidon::layers::cuda
