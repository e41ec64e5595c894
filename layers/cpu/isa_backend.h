#pragma once

#include "layers/backend.h"

/// All files of this folder except backend.cpp are compiled once for each instruction set
/// (core/isa.h). These functions are the entry points of the compiled code
/// (third_party/instruction_sets.cmake).
namespace poseidon::layers::cpu {

namespace native {
Backend make_backend(int threads, DataType activations);
}
namespace v2 {
Backend make_backend(int threads, DataType activations);
}
namespace v3 {
Backend make_backend(int threads, DataType activations);
}
namespace v4 {
Backend make_backend(int threads, DataType activations);
}

}  // namespace poseidon::layers::cpu
