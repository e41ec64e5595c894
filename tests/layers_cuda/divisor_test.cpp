#include "layers/cuda/divisor.cuh"

#include <doctest/doctest.h>

#include "core/philox.h"

using namespace poseidon;

TEST_CASE("a divisor computes quotient and remainder like integer division") {
  RandomStream random(1, RandomPurpose::kGeneration, 0, 0);
  for (int i = 0; i < 3000; ++i) {
    const uint32_t d = i < 300 ? static_cast<uint32_t>(i + 1) : random.next_word() >> i % 32 | 1U;
    const layers::cuda::Divisor divisor(d);
    CAPTURE(d);
    const uint32_t multiple = random.next_word() / d * d;
    for (const uint32_t n : {0U, 1U, d - 1, d, d + 1, multiple, multiple - 1, random.next_word(),
                             0x7FFFFFFFU, 0x80000000U, 0xFFFFFFFFU}) {
      CAPTURE(n);
      uint32_t quotient = n;
      CHECK(divisor.take_from(quotient) == n % d);
      CHECK(quotient == n / d);
    }
  }
}
