#pragma once

#include <filesystem>

#include "layers/cuda/library.h"

namespace poseidon::layers::cuda {

/// The GPU half of this build, which lies beside the program: ../lib/libposeidon_cuda.so, seen from
/// the program's folder, or libposeidon_cuda.so in it. It is opened once and stays. Throws
/// ConfigError where there is none, where it lacks a library of CUDA, or where it is of another
/// build.
const Library& open_library();

/// The same for a program in `folder`.
const Library& open_library(const std::filesystem::path& folder);

}  // namespace poseidon::layers::cuda
