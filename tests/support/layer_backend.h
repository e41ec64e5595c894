#pragma once

#include "core/data_type.h"
#include "layers/backend.h"

namespace poseidon::test {

/// A device and all that computes on it. A test reaches its memory by DeviceMemory.
using LayerBackend = layers::Backend;

/// `type`: what the device keeps activations as.
using LayerBackendMaker = LayerBackend (*)(int threads, DataType type);

/// That of the test program: the CPU (tests/support/cpu), a GPU whose kernels run on the host
/// (tests/support/gpu), or a GPU (tests/support/real_gpu).
LayerBackend make_layer_backend(int threads, DataType type);

}  // namespace poseidon::test
