#pragma once

#include "core/data_type.h"
#include "layers/backend.h"

namespace poseidon::test {

/// A device with its layers and updates. A test accesses its memory by DeviceMemory.
using LayerBackend = layers::Backend;

/// `type`: data type of the device's activations.
using LayerBackendMaker = LayerBackend (*)(int threads, DataType type);

/// Makes the backend of the test program: the CPU (tests/support/cpu), an emulated GPU
/// (tests/support/gpu), or a real GPU (tests/support/real_gpu).
LayerBackend make_layer_backend(int threads, DataType type);

}  // namespace poseidon::test
