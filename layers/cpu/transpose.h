#pragma once

#include <cstddef>
#include <utility>

#include "layers/cpu/vectors.h"

/// Transposition of square matrices in registers.
namespace poseidon::layers::cpu {

/// Swaps lanes between `a` and `b`: lanes of `a` whose index has the bit kLane, and lanes of `b`
/// whose index does not have this bit.
template <size_t kLane, class V, size_t... kLanes>
[[gnu::always_inline]] inline void exchange(V& a, V& b, std::index_sequence<kLanes...>) {
  constexpr size_t kOther = sizeof...(kLanes);
  const V low = __builtin_shufflevector(
      a, b, ((kLanes & kLane) != 0 ? kOther + (kLanes ^ kLane) : kLanes)...);
  const V high =
      __builtin_shufflevector(a, b, ((kLanes & kLane) != 0 ? kOther + kLanes : kLanes ^ kLane)...);
  a = low;
  b = high;
}

/// Divides the square into blocks of kLane rows and kLane lanes. In each group of 2 x 2 blocks,
/// swaps the two blocks that are not on the diagonal.
template <size_t kLane, size_t kBlock, class V>
[[gnu::always_inline]] inline void exchange_rows(V (&rows)[kBlock]) {
#pragma GCC unroll 16
  for (size_t row = 0; row < kBlock; ++row)
    if ((row & kLane) == 0)
      exchange<kLane>(rows[row], rows[row | kLane], std::make_index_sequence<kBlock>());
}

/// Transposes a square of 8 or 16 rows, each of which is a vector of 8 or 16 lanes.
template <size_t kBlock, class V>
[[gnu::always_inline]] inline void transpose_square(V (&rows)[kBlock]) {
  exchange_rows<1>(rows);
  exchange_rows<2>(rows);
  exchange_rows<4>(rows);
  if constexpr (kBlock > 8) exchange_rows<8>(rows);
}

}  // namespace poseidon::layers::cpu
