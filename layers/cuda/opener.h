#pragma once

#include <filesystem>

#include "layers/cuda/library.h"

namespace poseidon::layers::cuda {

/// Opens the GPU library of this build. The file is ../lib/libposeidon_cuda.so or
/// libposeidon_cuda.so, relative to the program's folder. The library is never unloaded. Throws
/// ConfigError if the file or a CUDA library that it needs is missing, or if the GPU library
/// belongs to another build.
const Library& open_library();

/// Opens the GPU library of a program in `folder`.
const Library& open_library(const std::filesystem::path& folder);

}  // namespace poseidon::layers::cuda
