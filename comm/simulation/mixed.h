#pragma once

#include <cstdint>

namespace poseidon::comm {

/// mixed() of arguments that increase by this step is the generator splitmix64.
inline constexpr uint64_t kMixStep = 0x9E3779B97F4A7C15u;

/// Spreads the differences of its arguments over all bits.
inline uint64_t mixed(uint64_t z) {
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

}  // namespace poseidon::comm
