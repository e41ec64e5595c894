#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace poseidon::cuda {

/// A function with a stack of its own, which gives its thread back in the middle.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Not while an earlier function is under way.
  void begin(std::function<void()> function);
  /// Runs it until it suspends itself or is done.
  void resume();
  /// Called by the function: returns at the next resume().
  void suspend();

 private:
  static void run(Fiber* self);
  void go_outside(void** keep);

  std::function<void()> function_;
  std::unique_ptr<std::byte[]> stack_;
  void *inside_ = nullptr, *outside_ = nullptr;  ///< where the stacks end while they are left
  // What the sanitizers want to know of stacks.
  void *inside_fake_ = nullptr, *outside_fake_ = nullptr;
  const void* outside_stack_ = nullptr;
  size_t outside_bytes_ = 0;
  void *inside_thread_ = nullptr, *outside_thread_ = nullptr;
};

}  // namespace poseidon::cuda
