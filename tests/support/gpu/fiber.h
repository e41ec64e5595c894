#pragma once

#include <cstddef>
#include <span>

namespace poseidon::cuda {

/// Something that runs on a stack of its own, again and again, and gives its thread back in the
/// middle. Its class derives from this one. Code that it suspends itself from is
/// POSEIDON_KERNEL_CODE (core/cuda/host_thread.h).
class Fiber {
 public:
  static constexpr size_t kStackBytes = size_t{128} << 10;

  /// The stack, of kStackBytes, outlives it.
  explicit Fiber(std::span<std::byte> stack);
  /// In the middle of run(), the rest of that is never done.
  virtual ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Goes on until run() suspends itself or is done; then the next call runs it anew.
  void resume();

 protected:
  virtual void run() = 0;
  /// Called by run(): returns at the next resume().
  void suspend();

 private:
  static void live(Fiber* self);
  void begin_stack();
  void go_outside(void** keep);

  const std::span<std::byte> stack_;
  bool is_ending_ = false;
  void *inside_ = nullptr, *outside_ = nullptr;  ///< where the stacks end while they are left
  // What the address sanitizer wants to know of stacks.
  void *inside_fake_ = nullptr, *outside_fake_ = nullptr;
  const void* outside_stack_ = nullptr;
  size_t outside_bytes_ = 0;
};

}  // namespace poseidon::cuda
