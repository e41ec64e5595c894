#include "tests/support/gpu/fiber.h"

#include <cstdint>

#include "core/cuda/host_thread.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

// Pushes the callee-saved registers, stores the stack pointer in `from` and continues on the stack
// `to`. `to` was stored by an earlier call, or prepared by Fiber::begin_stack. swapcontext does the
// same, but with two system calls per switch. A new stack starts in poseidon_begin_stack. It calls
// a function with an argument. The first switch pops both into registers.
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

/// Call these before and after a switch of stacks. Without the address sanitizer they do nothing.
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

Fiber::Fiber(std::span<std::byte> stack) : stack_(stack) { begin_stack(); }

/// The sanitizer frees its state of a stack only when that stack is left for good. So the
/// destructor enters it once more.
Fiber::~Fiber() {
  is_ending_ = true;
  begin_stack();
  resume();
}

void Fiber::begin_stack() {
  // The layout that poseidon_switch_stack expects: r15 to r12, rbx, rbp, return address. Above
  // these the stack is aligned to 16 bytes, as a call requires.
  const auto top = reinterpret_cast<uintptr_t>(stack_.data() + stack_.size()) / 16 * 16;
  auto* place = reinterpret_cast<uintptr_t*>(top) - 9;
  place[2] = reinterpret_cast<uintptr_t>(&Fiber::live);
  place[3] = reinterpret_cast<uintptr_t>(this);
  place[4] = place[5] = 0;
  place[6] = reinterpret_cast<uintptr_t>(&poseidon_begin_stack);
  inside_ = place;
}

POSEIDON_KERNEL_CODE void Fiber::live(Fiber* self) {
  reach_stack(self->inside_fake_, &self->outside_stack_, &self->outside_bytes_);
  while (!self->is_ending_) {
    self->run();
    self->suspend();
  }
  self->go_outside(nullptr);
}

void Fiber::resume() {
  leave_stack(&outside_fake_, stack_.data(), stack_.size());
  poseidon_switch_stack(&outside_, inside_);
  reach_stack(outside_fake_, nullptr, nullptr);
}

/// `keep` null: the stack is left for good.
POSEIDON_KERNEL_CODE void Fiber::go_outside(void** keep) {
  leave_stack(keep, outside_stack_, outside_bytes_);
  poseidon_switch_stack(&inside_, outside_);
}

POSEIDON_KERNEL_CODE void Fiber::suspend() {
  go_outside(&inside_fake_);
  reach_stack(inside_fake_, &outside_stack_, &outside_bytes_);
}

}  // namespace poseidon::cuda
