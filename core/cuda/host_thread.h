#pragma once

#include <cstdint>
#include <cstring>

/// Marks what runs in a thread of a kernel, for which the thread sanitizer is not to look: it seeks
/// races of the host's threads, and each kernel runs in one of them, between whose stacks it is
/// switched. A function that is left in the middle so must not enter and leave the sanitizer's own
/// list of calls.
#define POSEIDON_KERNEL_CODE __attribute__((no_sanitize_thread))

/// What a kernel knows of its threads where it runs on the host: the twin of gpu_thread.cuh.
namespace poseidon::cuda {

/// The other threads of a block, for one of them.
class BlockMates {
 public:
  virtual ~BlockMates() = default;
  /// Returns when all threads of the block have called it.
  virtual void synchronize() = 0;
  /// Returns the value that lane `lane` of the warp gave to its call of the same.
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

/// What each thread of a grid does; the memory is what its block shares.
class ThreadBody {
 public:
  virtual ~ThreadBody() = default;
  virtual void run(const Thread& thread, void* shared) const = 0;
};

/// Runs all threads of a grid.
class BlockRunner {
 public:
  virtual ~BlockRunner() = default;
  /// `shared_bytes` 0: the threads have nothing to do with each other.
  virtual void run(uint32_t blocks, uint32_t blocks_y, uint32_t threads, size_t shared_bytes,
                   const ThreadBody& body) = 0;
};

}  // namespace poseidon::cuda
