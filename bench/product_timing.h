#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

#include "core/buffer.h"
#include "core/philox.h"

/// Helpers of bench_product.
namespace poseidon::bench {

/// Random numbers in memory like that of a net: aligned, and in huge pages.
inline Buffer random(int64_t count, uint64_t which) {
  RandomStream stream(1, RandomPurpose::kGeneration, which, 0);
  Buffer values(static_cast<size_t>(count) * sizeof(float));
  for (float& value : values.as<float>()) value = stream.next_uniform(-1, 1);
  return values;
}

inline double seconds_of(const std::function<void()>& run) {
  const auto begin = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Median seconds of Poseidon's and of oneDNN's code.
struct Times {
  double ours, theirs;
};

/// Runs both codes alternately, `repeats` times each.
inline Times compare_times(const std::function<void()>& ours, const std::function<void()>& theirs,
                           int repeats) {
  std::vector<double> our_times, their_times;
  for (int i = 0; i <= repeats; ++i) {
    const double our_seconds = seconds_of(ours), their_seconds = seconds_of(theirs);
    if (i == 0) continue;  // not counted: it touches the memory for the first time
    our_times.push_back(our_seconds);
    their_times.push_back(their_seconds);
  }
  return {median(our_times), median(their_times)};
}

}  // namespace poseidon::bench
