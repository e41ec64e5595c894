#pragma once

#include <cmath>

#include "core/cuda/kernel.cuh"

/// Sums and maxima over the threads of a warp or a block. The order is fixed, so the result is the
/// same bit for bit in every run and in all threads.
namespace poseidon::layers::cuda {

using poseidon::cuda::Thread;

inline constexpr uint32_t kWarp = 32;

struct Sum {
  template <class T>
  POSEIDON_DEVICE T operator()(T a, T b) const {
    return a + b;
  }
};

/// Maximum of two values. If one of them is NaN, the result is the other one.
struct Maximum {
  POSEIDON_DEVICE float operator()(float a, float b) const { return ::fmaxf(a, b); }
};

/// An empty Shared struct, for a kernel that needs only warp shuffles. A kernel without a Shared
/// struct may not shuffle (core/cuda/kernel.cuh).
struct NoSharedMemory {};

/// Reduces `value` over each set of lanes of a warp that have equal indices modulo `lowest`, a
/// power of two. With the default, all lanes form one set. Each lane receives the result of its
/// set.
template <class T, class Operation>
POSEIDON_DEVICE T reduce_warp(const Thread& thread, T value, Operation operation,
                              uint32_t lowest = 1) {
#pragma unroll
  for (uint32_t mask = kWarp / 2; mask > 0; mask /= 2)
    if (mask >= lowest) value = operation(value, thread.shuffle_xor(value, mask));
  return value;
}

/// Returns the `value` that lane (own lane % lowest) of the warp passed. `lowest` is a power of
/// two.
template <class T>
POSEIDON_DEVICE T first_of_warp(const Thread& thread, T value, uint32_t lowest) {
#pragma unroll
  for (uint32_t mask = 1; mask < kWarp; mask *= 2) {
    if (mask < lowest) continue;
    const T other = thread.shuffle_xor(value, mask);
    if ((thread.lane() & mask) != 0) value = other;
  }
  return value;
}

/// The threads that process one row: the whole block (kWholeBlock), or one of its kWarps warps.
template <uint32_t kWarps, bool kWholeBlock>
struct Team {
  static constexpr uint32_t kThreads = kWarps * kWarp;
  static constexpr uint32_t kSize = kWholeBlock ? kThreads : kWarp;
  static constexpr uint32_t kRowsPerBlock = kThreads / kSize;
  /// One value for each warp; unused by a team of one warp. A double also holds a float or a 32-bit
  /// integer exactly.
  struct Shared {
    double of_warp[kWholeBlock ? kWarps : 1];
  };

  static POSEIDON_DEVICE int64_t row(const Thread& thread) {
    return int64_t{thread.block()} * kRowsPerBlock + thread.thread() / kSize;
  }
  static POSEIDON_DEVICE uint32_t member(const Thread& thread) { return thread.thread() % kSize; }

  template <class T, class Operation>
  static POSEIDON_DEVICE T reduce(const Thread& thread, Shared& shared, T value,
                                  Operation operation) {
    value = reduce_warp(thread, value, operation);
    if constexpr (kWholeBlock) {
      thread.synchronize();  // all threads have read the values of the previous reduction
      if (thread.lane() == 0) shared.of_warp[thread.warp()] = static_cast<double>(value);
      thread.synchronize();
      value = static_cast<T>(shared.of_warp[0]);
#pragma unroll
      for (uint32_t warp = 1; warp < kWarps; ++warp)
        value = operation(value, static_cast<T>(shared.of_warp[warp]));
    }
    return value;
  }
};

using WarpTeam = Team<8, false>;
using BlockTeam = Team<8, true>;

/// Calls visitor(team): a warp for rows of at most kLongest elements, a block for longer rows.
template <class Visitor>
void with_team_for(int64_t length, const Visitor& visitor) {
  constexpr int64_t kLongest = 8 * kWarp;
  if (length <= kLongest)
    visitor(WarpTeam{});
  else
    visitor(BlockTeam{});
}

}  // namespace poseidon::layers::cuda
