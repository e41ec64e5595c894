#pragma once

#include <memory>

#include "core/data_type.h"
#include "core/device.h"
#include "layers/layer.h"

namespace poseidon::test {

/// A device and what makes its layers, whose memory a test may reach when the device's work is
/// done.
struct LayerBackend {
  std::unique_ptr<Device> device;
  std::unique_ptr<layers::LayerFactory> factory;
};

/// `type`: what the device keeps activations as.
using LayerBackendMaker = LayerBackend (*)(int threads, DataType type);

/// That of the test program: the CPU (tests/support/cpu), or a GPU whose kernels run on the host
/// (tests/support/gpu).
LayerBackend make_layer_backend(int threads, DataType type);

}  // namespace poseidon::test
