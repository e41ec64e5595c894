#pragma once

#include <type_traits>

#include "core/cuda/pack.cuh"

/// Neighbouring channels of one position, for kernels of which a thread takes the same channels of
/// several positions.
namespace poseidon::layers::cuda {

/// Numbers of `kWidth` neighbouring channels: a pack of them, or one where a row of channels is not
/// made of whole packs.
template <class Element, int kWidth>
struct Lanes {
  static_assert(kWidth == 1 || kWidth == poseidon::cuda::kPack<Element>);
  float values[kWidth];

  POSEIDON_DEVICE float& operator[](int i) { return values[i]; }
  POSEIDON_DEVICE const float& operator[](int i) const { return values[i]; }
};

template <int kWidth, class Element>
POSEIDON_DEVICE Lanes<Element, kWidth> load_lanes(const Element* from) {
  Lanes<Element, kWidth> lanes;
  if constexpr (kWidth == 1) {
    lanes[0] = *from;
  } else {
    const auto pack = poseidon::cuda::load_pack(from);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) lanes[i] = pack[i];
  }
  return lanes;
}

template <int kWidth, class Element>
POSEIDON_DEVICE void store_lanes(Element* to, const Lanes<Element, kWidth>& lanes) {
  if constexpr (kWidth == 1) {
    *to = lanes[0];
  } else {
    poseidon::cuda::Pack<Element> pack;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) pack[i] = lanes[i];
    poseidon::cuda::store_pack(to, pack);
  }
}

/// Calls use(width, as a constant) with the channels that a thread takes of a row of so many.
template <class Element, class Use>
void with_lanes_of(int64_t channels, const Use& use) {
  constexpr int kWhole = poseidon::cuda::kPack<Element>;
  if (channels % kWhole == 0)
    use(std::integral_constant<int, kWhole>{});
  else
    use(std::integral_constant<int, 1>{});
}

}  // namespace poseidon::layers::cuda
