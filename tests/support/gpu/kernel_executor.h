#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/cuda/host_thread.h"

namespace poseidon::cuda {

/// Runs GPU kernels on the host, in one thread. The seed selects the order of blocks in a grid and
/// of threads in a block.
///
/// Threads that share memory are fibers. When one waits for others, a random other one continues.
/// Shared memory is filled with NaN first. If threads of a block wait at different calls, or one
/// returns while others wait, run() throws LogicError.
class KernelExecutor final : public BlockRunner {
 public:
  /// Seed 0: blocks and threads run in index order.
  explicit KernelExecutor(uint64_t seed);
  ~KernelExecutor() override;

  void run(uint32_t blocks, uint32_t blocks_y, uint32_t threads, size_t shared_bytes,
           const ThreadBody& body) override;

 private:
  class Block;

  /// A fast xorshift generator. RandomStream has better statistics but is too slow for one draw per
  /// thread.
  uint32_t random_below(uint32_t bound);
  /// Fills `numbers` with a permutation of 0 to `count` - 1: the next one of the seed.
  void put_in_order(std::vector<uint32_t>& numbers, uint32_t count);

  uint64_t random_;
  const bool shuffles_;
  std::vector<uint32_t> blocks_, threads_;  ///< in order of execution
  std::unique_ptr<Block> block_;
};

}  // namespace poseidon::cuda
