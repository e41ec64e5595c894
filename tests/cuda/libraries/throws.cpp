// A GPU library that throws. It exports the same symbols as the real one.

#include "layers/cuda/library.h"

namespace poseidon::layers::cuda {

namespace {

class Throwing final : public Library {
 public:
  poseidon::cuda::GpuList gpus() const override { throw ConfigError("from the library: config"); }
  Backend make_backend(const GpuRequest& request) const override {
    if (request.index == 0) throw OutOfMemory("from the library: memory");
    throw LogicError("from the library: logic");
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
  static const poseidon::layers::cuda::Throwing library;
  return &library;
}
