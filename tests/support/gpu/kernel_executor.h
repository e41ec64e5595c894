#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/cuda/host_thread.h"

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
           const ThreadBody& body) override;

 private:
  class Block;

  /// Every thread is drawn for: this is quick, where RandomStream is good.
  uint32_t random_below(uint32_t bound);
  /// Makes them those below `count`, in the next order by seed.
  void put_in_order(std::vector<uint32_t>& numbers, uint32_t count);

  uint64_t random_;
  const bool shuffles_;
  std::vector<uint32_t> blocks_, threads_;  ///< in the order in which they go on
  std::unique_ptr<Block> block_;
};

}  // namespace poseidon::cuda
