#pragma once

#include <memory>
#include <vector>

#include "core/cuda/host_thread.h"
#include "core/philox.h"

namespace poseidon::cuda {

/// Runs kernels on the host, in one thread: the blocks of a grid in an order by seed, and in each
/// the threads. Threads that share memory are fibers, of which a random one goes on whenever one
/// waits for others; their memory begins as NaN. A kernel whose threads do not meet at the same
/// calls, or leave others waiting, ends by LogicError.
class KernelExecutor final : public BlockRunner {
 public:
  /// Seed 0: blocks and threads in order.
  explicit KernelExecutor(uint64_t seed);
  ~KernelExecutor() override;

  void run(uint32_t blocks, uint32_t blocks_y, uint32_t threads, size_t shared_bytes,
           const Body& body) override;

 private:
  class Block;

  std::vector<uint32_t> order_of(uint32_t count);

  bool shuffles_;
  RandomStream random_;
  std::unique_ptr<Block> block_;
};

}  // namespace poseidon::cuda
