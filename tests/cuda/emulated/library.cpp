// Replaces the GPU library: an emulated GPU, so that whole programs run with --device cuda.

#include "layers/cuda/library.h"

#include <cstdlib>

#include "tests/support/gpu/emulated_gpu_backend.h"

namespace poseidon::layers::cuda {

namespace {

class EmulatedGpuLibrary final : public Library {
 public:
  poseidon::cuda::GpuList gpus() const override {
    return {.gpus = {{.name = "an emulated GPU", .memory_bytes = 1 << 30, .major = 9, .minor = 0}},
            .driver = "13.0",
            .runtime = "13.0",
            .libraries = "loops of the host"};
  }

  /// The environment variable POSEIDON_EMULATED_ORDER is the seed of the order of GPU work.
  Backend make_backend(const GpuRequest& request) const override {
    if (request.index != 0)
      throw ConfigError(text("GPU ", request.index, ": this machine has 1 GPU, counted from 0"));
    const char* order = std::getenv("POSEIDON_EMULATED_ORDER");
    const uint64_t seed = order == nullptr ? 1 : std::strtoull(order, nullptr, 10);
    poseidon::cuda::Settings settings = request.settings;
    if (settings.graphs == poseidon::cuda::Graphs::kUsed) {
      settings.graphs = test::kEmulatedGpuSettings.graphs;
      settings.min_graph_operations = test::kEmulatedGpuSettings.min_graph_operations;
    }
    return test::make_emulated_gpu_backend({.seed = seed}, settings);
  }
};

}  // namespace

}  // namespace poseidon::layers::cuda

extern "C" __attribute__((visibility("default"))) const char* poseidon_cuda_build() {
  static const std::string build = poseidon::layers::cuda::build_of(POSEIDON_VERSION);
  return build.c_str();
}

extern "C" __attribute__((visibility("default"))) const poseidon::layers::cuda::Library*
poseidon_cuda_library() {
  static const poseidon::layers::cuda::EmulatedGpuLibrary library;
  return &library;
}
