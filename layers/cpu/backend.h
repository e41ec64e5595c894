#pragma once

#include "layers/backend.h"

namespace poseidon::layers::cpu {

/// A CPU backend with `threads` threads; 0: all cores that the system allows. `activations` is the
/// type of the activations of layers that support fp32 and bf16. Other layers use fp32.
Backend make_cpu_backend(int threads, DataType activations);

}  // namespace poseidon::layers::cpu
