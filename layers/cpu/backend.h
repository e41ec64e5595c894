#pragma once

#include "layers/backend.h"

namespace poseidon::layers::cpu {

/// A CPU backend with `threads` threads; 0: all cores that the system allows.
Backend make_cpu_backend(int threads, DataType activations);

}  // namespace poseidon::layers::cpu
