#pragma once

#include <chrono>
#include <cstdint>

#include "core/cpu/thread_team.h"

namespace poseidon::bench {

/// Measures the peak rate of multiply-adds, which is an upper bound for every kernel. Runs
/// multiply-adds on registers. Enough of them are independent to fill the execution units. Returns
/// the GFLOP/s of all threads of the team together, in the best of `rounds` rounds.
inline double measure_peak_gflops(cpu::ThreadTeam& team, int rounds = 10) {
#if defined(__AVX512F__)
  constexpr int kBytes = 64;
#else
  constexpr int kBytes = 32;
#endif
  typedef float Vector __attribute__((vector_size(kBytes)));
  constexpr int kLanes = kBytes / 4, kInFlight = 12;
  constexpr int64_t kRepeats = 2'000'000;
  double best = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    team.run(team.threads(), [](int64_t, int) {
      Vector sums[kInFlight] = {}, factor = Vector{} + 0.999f, term = Vector{} + 0.001f;
      for (int64_t i = 0; i < kRepeats; ++i) {
#pragma GCC unroll 12
        for (int k = 0; k < kInFlight; ++k) {
          sums[k] = sums[k] * factor + term;
          // Prevents the compiler from seeing that all twelve sums are equal.
          asm volatile("" : "+v"(sums[k]));
        }
      }
    });
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, 2e-9 * kRepeats * kInFlight * kLanes * team.threads() / seconds);
  }
  return best;
}

}  // namespace poseidon::bench
