#pragma once

#include <cstddef>
#include <span>

namespace poseidon::cuda {

/// A coroutine with a separate stack: run() can suspend itself in the middle and can run several
/// times. Derived classes implement run(). Functions on the stack at a suspension are marked
/// POSEIDON_KERNEL_CODE (core/cuda/host_thread.h).
class Fiber {
 public:
  static constexpr size_t kStackBytes = size_t{128} << 10;

  /// `stack` has kStackBytes bytes and outlives this object.
  explicit Fiber(std::span<std::byte> stack);
  /// If run() is suspended, its remaining code never runs.
  virtual ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Continues run() until it suspends itself or returns. After a return, the next call starts
  /// run() again.
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
  void *inside_ = nullptr,
       *outside_ = nullptr;  ///< stack pointers of the stacks that are not running
  // State that the address sanitizer needs to follow stack switches.
  void *inside_fake_ = nullptr, *outside_fake_ = nullptr;
  const void* outside_stack_ = nullptr;
  size_t outside_bytes_ = 0;
};

}  // namespace poseidon::cuda
