#pragma once

#include <cstdint>
#include <cstring>

/// Marks a function that runs in threads of a kernel. The thread sanitizer must ignore it. The
/// sanitizer looks for races between host threads, but all threads of a kernel run in one host
/// thread, as fibers. The function may switch to another fiber before it returns, so it must not
/// change the sanitizer's call stack.
#define POSEIDON_KERNEL_CODE __attribute__((no_sanitize_thread))

/// The functions that a kernel calls on its thread (indices, barrier, shuffle), for tests on the
/// host. gpu_thread.cuh has the same functions for the GPU.
namespace poseidon::cuda {

/// The other threads of a block, as seen by one thread.
class BlockMates {
 public:
  virtual ~BlockMates() = default;
  /// Blocks until all threads of the block have called synchronize().
  virtual void synchronize() = 0;
  /// Returns the `value` that lane `lane` of the warp passed to its shuffle() call.
  virtual uint64_t shuffle(uint64_t value, uint32_t lane) = 0;
};

/// One thread of a grid.
class Thread {
 public:
  Thread(uint32_t block, uint32_t block_y, uint32_t thread, uint32_t blocks, uint32_t threads,
         BlockMates* mates)
      : block_(block),
        block_y_(block_y),
        thread_(thread),
        blocks_(blocks),
        threads_(threads),
        mates_(mates) {}

  uint32_t block() const { return block_; }
  uint32_t block_y() const { return block_y_; }
  uint32_t thread() const { return thread_; }
  uint32_t blocks() const { return blocks_; }
  uint32_t threads() const { return threads_; }
  uint32_t lane() const { return thread_ % 32; }
  uint32_t warp() const { return thread_ / 32; }

  POSEIDON_KERNEL_CODE void synchronize() const { mates_->synchronize(); }
  template <class T>
  POSEIDON_KERNEL_CODE T shuffle_xor(T value, uint32_t mask) const {
    static_assert(sizeof(T) <= sizeof(uint64_t));
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    bits = mates_->shuffle(bits, lane() ^ mask);
    std::memcpy(&value, &bits, sizeof(T));
    return value;
  }

 private:
  uint32_t block_, block_y_, thread_, blocks_, threads_;
  BlockMates* mates_;
};

/// The code that each thread of a grid runs. `shared` is the shared memory of the thread's block.
class ThreadBody {
 public:
  virtual ~ThreadBody() = default;
  virtual void run(const Thread& thread, void* shared) const = 0;
};

/// Runs all threads of a grid.
class BlockRunner {
 public:
  virtual ~BlockRunner() = default;
  /// `threads` is the number in each block. `shared_bytes` is the size of a block's shared memory;
  /// 0: the threads do not communicate.
  virtual void run(uint32_t blocks, uint32_t blocks_y, uint32_t threads, size_t shared_bytes,
                   const ThreadBody& body) = 0;
};

}  // namespace poseidon::cuda
