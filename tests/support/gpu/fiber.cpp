#include "tests/support/gpu/fiber.h"

#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace poseidon::cuda {

namespace {

constexpr size_t kStackBytes = size_t{128} << 10;

/// Before and after a switch of stacks; nothing without the address sanitizer.
void leave_stack([[maybe_unused]] void** keep, [[maybe_unused]] const void* stack,
                 [[maybe_unused]] size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(keep, stack, bytes);
#endif
}

void reach_stack([[maybe_unused]] void* kept, [[maybe_unused]] const void** from,
                 [[maybe_unused]] size_t* bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(kept, from, bytes);
#endif
}

}  // namespace

Fiber::Fiber() : stack_(std::make_unique<char[]>(kStackBytes)) {
#if defined(__SANITIZE_THREAD__)
  inside_thread_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(inside_thread_);
#endif
}

void Fiber::begin(std::function<void()> function) {
  function_ = std::move(function);
  ::getcontext(&inside_);
  inside_.uc_stack.ss_sp = stack_.get();
  inside_.uc_stack.ss_size = kStackBytes;
  inside_.uc_link = nullptr;
  inside_fake_ = nullptr;
  const auto self = reinterpret_cast<uintptr_t>(this);
  // makecontext takes a function of ints only.
  ::makecontext(&inside_, reinterpret_cast<void (*)()>(&Fiber::run), 2,
                static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
}

void Fiber::run(unsigned high, unsigned low) {
  Fiber& self = *reinterpret_cast<Fiber*>(uintptr_t{high} << 32 | low);
  reach_stack(nullptr, &self.outside_stack_, &self.outside_bytes_);
  self.function_();
  self.function_ = nullptr;
  leave_stack(nullptr, self.outside_stack_, self.outside_bytes_);
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(self.outside_thread_, 0);
#endif
  ::setcontext(&self.outside_);
}

void Fiber::resume() {
  leave_stack(&outside_fake_, stack_.get(), kStackBytes);
#if defined(__SANITIZE_THREAD__)
  outside_thread_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(inside_thread_, 0);
#endif
  ::swapcontext(&outside_, &inside_);
  reach_stack(outside_fake_, nullptr, nullptr);
}

void Fiber::suspend() {
  leave_stack(&inside_fake_, outside_stack_, outside_bytes_);
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(outside_thread_, 0);
#endif
  ::swapcontext(&inside_, &outside_);
  reach_stack(inside_fake_, &outside_stack_, &outside_bytes_);
}

}  // namespace poseidon::cuda
