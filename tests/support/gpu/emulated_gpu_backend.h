#pragma once

#include "core/cuda/settings.h"
#include "layers/backend.h"
#include "tests/support/gpu/fake_driver.h"

namespace poseidon::test {

/// Each graph replay is compared with the operations that the code would issue without the graph.
/// Work with few operations becomes a graph too.
inline constexpr cuda::Settings kEmulatedGpuSettings{.graphs = cuda::Graphs::kCompared,
                                                     .min_graph_operations = 1};

/// An emulated GPU with its layers and updates: the engine's own kernels, and plain loops in place
/// of the libraries (HostProducts).
layers::Backend make_emulated_gpu_backend(const cuda::FakeDriver::Options& options,
                                          const cuda::Settings& settings = kEmulatedGpuSettings);

}  // namespace poseidon::test
