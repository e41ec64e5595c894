#pragma once

#include <cstdint>
#include <vector>

#include "core/philox.h"

namespace poseidon::test {

/// Random numbers from -1 to 1. Each `which` has other numbers.
inline std::vector<float> random_floats(int64_t count, uint64_t which) {
  RandomStream stream(4, RandomPurpose::kGeneration, which, 0);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = stream.next_uniform(-1, 1);
  return values;
}

}  // namespace poseidon::test
