#pragma once

#include <filesystem>

#include "layers/cuda/library.h"

namespace poseidon::layers::cuda {

/// Opens the GPU library of this build. Relative to the program's folder, it is
/// ../lib/libposeidon_cuda.so or libposeidon_cuda.so. The library is never unloaded. Throws
/// ConfigError if there is no library, if a CUDA library that it needs is missing, or if the build
/// differs.
const Library& open_library();

/// Does the same for a program in `folder`.
const Library& open_library(const std::filesystem::path& folder);

}  // namespace poseidon::layers::cuda
