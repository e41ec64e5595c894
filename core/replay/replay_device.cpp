#include "core/replay/replay_device.h"

#include <sys/mman.h>
#include <sys/prctl.h>

#include <algorithm>
#include <thread>

#include "core/error.h"
#include "core/memory.h"

namespace poseidon::replay {

namespace {

/// Work that begins at most this long after the scheduled end of the previous work ends as if it
/// had begun at that time. This limit is longer than the wake-up of a thread, and shorter than any
/// significant wait for peers.
constexpr std::chrono::microseconds kCatchUp(300);

}  // namespace

/// Reduces the timer slack of the calling thread to 1 ns. By default the system may extend a
/// thread's sleep by 50 microseconds.
ReplayDevice::ReplayDevice() : busy_until_(Clock::now()) { ::prctl(PR_SET_TIMERSLACK, 1); }

Buffer ReplayDevice::allocate(size_t bytes, MemoryKind, std::string_view purpose) {
  if (bytes == 0) return {};
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    throw OutOfMemory(text("out of memory: cannot allocate ", bytes_text(bytes), " for ", purpose));
  return Buffer(memory, bytes, [](void* data, size_t size) { ::munmap(data, size); });
}

void ReplayDevice::copy(std::span<const std::byte> from, std::span<std::byte> to) {
  std::ranges::copy(from, to.begin());
}

void ReplayDevice::write(std::span<const std::byte> host, std::span<std::byte> to) {
  std::ranges::copy(host, to.begin());
}

void ReplayDevice::begin(double milliseconds) {
  const Clock::time_point now = Clock::now();
  if (now > busy_until_ + kCatchUp) busy_until_ = now;
  busy_until_ += std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double, std::milli>(milliseconds));
}

void ReplayDevice::end() {
  if (busy_until_ > Clock::now()) std::this_thread::sleep_until(busy_until_);
}

}  // namespace poseidon::replay
