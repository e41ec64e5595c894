#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/cuda/operation.h"

#ifdef __CUDACC__
#include "core/cuda/gpu_thread.cuh"
/// Marks functions that run in the threads of a kernel.
#define POSEIDON_DEVICE __device__ __forceinline__
#else
#include "core/cuda/host_thread.h"
#define POSEIDON_DEVICE POSEIDON_KERNEL_CODE inline
#endif

/// A kernel is written once, as a struct of its arguments. nvcc compiles it for the GPU. The C++
/// compiler compiles it for the host, where the tests run it (tests/support/gpu/kernel_executor.h).
/// A kernel has
///
///     static constexpr const char* kName       its name in messages
///     static constexpr uint32_t kThreads       threads of a block, a multiple of 32
///     void visit(MemoryVisitor&) const         reports the memory that it reads and writes
///     POSEIDON_DEVICE void operator()(const Thread&) const             an independent thread, or
///     POSEIDON_DEVICE void operator()(const Thread&, Shared&) const    a thread of a block with
///                                                                      shared memory (Shared)
///
/// Only threads with shared memory may synchronize and shuffle. All threads of a block must call
/// each of these functions equally often. Shared memory is uninitialized at first.
namespace poseidon::cuda {

struct Grid {
  uint32_t blocks = 1;
  uint32_t blocks_y = 1;
};

template <class Kernel>
inline constexpr bool kSharesMemory = requires { typename Kernel::Shared; };

/// The number of blocks of `each` items that hold `count` items.
constexpr uint32_t blocks_for(int64_t count, int64_t each) {
  return static_cast<uint32_t>((count + each - 1) / each);
}

#ifdef __CUDACC__

template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads)
    run_kernel(const __grid_constant__ Kernel kernel) {
  if constexpr (kSharesMemory<Kernel>) {
    __shared__ typename Kernel::Shared shared;
    kernel(Thread{}, shared);
  } else {
    kernel(Thread{});
  }
}

template <class Kernel>
void issue_kernel(const Kernel& kernel, const Grid& grid, const Executor& executor) {
  run_kernel<<<dim3(grid.blocks, grid.blocks_y), Kernel::kThreads, 0,
               static_cast<cudaStream_t>(executor.stream)>>>(kernel);
}

#else

template <class Kernel>
class KernelBody final : public ThreadBody {
 public:
  explicit KernelBody(const Kernel& kernel) : kernel_(kernel) {}

  static constexpr size_t shared_bytes() {
    if constexpr (kSharesMemory<Kernel>)
      return sizeof(typename Kernel::Shared);
    else
      return 0;
  }
  POSEIDON_KERNEL_CODE void run(const Thread& thread, void* shared) const override {
    if constexpr (kSharesMemory<Kernel>)
      kernel_(thread, *static_cast<typename Kernel::Shared*>(shared));
    else
      kernel_(thread);
  }

 private:
  const Kernel& kernel_;
};

template <class Kernel>
void issue_kernel(const Kernel& kernel, const Grid& grid, const Executor& executor) {
  using Body = KernelBody<Kernel>;
  executor.host->run(grid.blocks, grid.blocks_y, Kernel::kThreads, Body::shared_bytes(),
                     Body(kernel));
}

#endif

/// A kernel with its arguments and grid, as an operation of a stream.
template <class Kernel>
class KernelLaunch final : public Operation {
 public:
  KernelLaunch(const Kernel& kernel, const Grid& grid) : launch_{kernel, grid} {
#if !defined(__CUDACC__) && __has_builtin(__builtin_clear_padding)
    __builtin_clear_padding(&launch_);
#endif
  }

  std::string name() const override { return Kernel::kName; }
  void visit(MemoryVisitor& visitor) const override { launch_.kernel.visit(visitor); }
#if !defined(__CUDACC__) && __has_builtin(__builtin_clear_padding)
  /// Exists only if the constructor can clear the padding between arguments. Otherwise equal
  /// arguments could have different bytes.
  std::span<const std::byte> arguments() const override {
    return std::as_bytes(std::span(&launch_, 1));
  }
#endif
  void issue(const Executor& executor) const override {
    issue_kernel(launch_.kernel, launch_.grid, executor);
  }

 private:
  struct Launch {
    Kernel kernel;
    Grid grid;
  };
  Launch launch_;
};

template <class Kernel>
std::unique_ptr<const Operation> launch_of(const Kernel& kernel, const Grid& grid) {
  return std::make_unique<KernelLaunch<Kernel>>(kernel, grid);
}

}  // namespace poseidon::cuda
