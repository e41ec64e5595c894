// The GPU library of another build.

extern "C" __attribute__((visibility("default"))) const char* poseidon_cuda_build();

const char* poseidon_cuda_build() { return "0.0.1, another compiler"; }
