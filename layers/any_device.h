#pragma once

#ifdef __CUDACC__
/// Marks arithmetic that runs on the host and on GPUs.
#define POSEIDON_ANY_DEVICE __host__ __device__ __forceinline__
#else
#define POSEIDON_ANY_DEVICE inline
#endif
