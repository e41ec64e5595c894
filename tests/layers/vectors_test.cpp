#include "layers/cpu/vectors.h"

#include <doctest/doctest.h>

#include <array>

#include "core/bf16.h"

using namespace poseidon;
using namespace poseidon::layers::cpu;

namespace {

/// Loads and stores of bf16 vectors must equal conversions of single values.
template <int kLanes>
void check_vectors() {
  using Float = typename Vectors<kLanes>::Float;
  std::array<Bf16, kLanes> vector, single;
  for (uint32_t upper = 0; upper <= UINT16_MAX; ++upper) {
    Float values;
    for (uint32_t lane = 0; lane < kLanes; ++lane)
      values[lane] = std::bit_cast<float>(upper << 16 | (lane * 0x2000U + lane));
    store(vector.data(), values);
    for (size_t lane = 0; lane < kLanes; ++lane) single[lane] = values[lane];
    REQUIRE(std::memcmp(vector.data(), single.data(), sizeof vector) == 0);
    const auto loaded = load<Float>(vector.data());
    for (size_t lane = 0; lane < kLanes; ++lane)
      REQUIRE(std::bit_cast<uint32_t>(loaded[lane]) ==
              std::bit_cast<uint32_t>(static_cast<float>(vector[lane])));
  }
}

}  // namespace

TEST_CASE("bf16 vectors are rounded like bf16 scalars") {
  check_vectors<8>();
  check_vectors<16>();
}
