#include "tests/support/gpu/fiber.h"

#include <cstdint>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

// Makes `to` the stack, as poseidon_switch_stack left it, and leaves where the current one ends in
// `from`: what a function must preserve is kept on it. swapcontext would do the same, with two
// system calls each time. A new stack begins in poseidon_begin_stack, which calls a function with
// an argument that the first switch takes off the stack into registers.
extern "C" void poseidon_switch_stack(void** from, void* to);
extern "C" void poseidon_begin_stack();
#if !defined(__x86_64__)
#error "the kernels' threads on the host need a switch of stacks for this processor"
#endif
asm(R"(
.text
.type poseidon_switch_stack, @function
poseidon_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size poseidon_switch_stack, .-poseidon_switch_stack
.type poseidon_begin_stack, @function
poseidon_begin_stack:
  movq %r12, %rdi
  call *%r13
  ud2
.size poseidon_begin_stack, .-poseidon_begin_stack
)");

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

/// The thread sanitizer takes each stack for a thread.
void* current_thread() {
#if defined(__SANITIZE_THREAD__)
  return __tsan_get_current_fiber();
#else
  return nullptr;
#endif
}

void switch_thread([[maybe_unused]] void* thread) {
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(thread, 0);
#endif
}

}  // namespace

Fiber::Fiber() : stack_(new std::byte[kStackBytes]) {
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
  inside_fake_ = nullptr;
  // As poseidon_switch_stack leaves a stack: r15 to r12, rbx, rbp, and where to go on. Behind that
  // it is aligned, as it has to be where a function is called.
  const auto top = reinterpret_cast<uintptr_t>(stack_.get() + kStackBytes) / 16 * 16;
  auto* place = reinterpret_cast<uintptr_t*>(top) - 9;
  place[2] = reinterpret_cast<uintptr_t>(&Fiber::run);
  place[3] = reinterpret_cast<uintptr_t>(this);
  place[4] = place[5] = 0;
  place[6] = reinterpret_cast<uintptr_t>(&poseidon_begin_stack);
  inside_ = place;
}

void Fiber::run(Fiber* self) {
  reach_stack(nullptr, &self->outside_stack_, &self->outside_bytes_);
  self->function_();
  self->function_ = nullptr;
  self->go_outside(nullptr);
}

void Fiber::resume() {
  leave_stack(&outside_fake_, stack_.get(), kStackBytes);
  outside_thread_ = current_thread();
  switch_thread(inside_thread_);
  poseidon_switch_stack(&outside_, inside_);
  reach_stack(outside_fake_, nullptr, nullptr);
}

/// `keep` null: for good.
void Fiber::go_outside(void** keep) {
  leave_stack(keep, outside_stack_, outside_bytes_);
  switch_thread(outside_thread_);
  poseidon_switch_stack(&inside_, outside_);
}

void Fiber::suspend() {
  go_outside(&inside_fake_);
  reach_stack(inside_fake_, &outside_stack_, &outside_bytes_);
}

}  // namespace poseidon::cuda
