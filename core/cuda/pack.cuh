#pragma once

#include <cassert>
#include <cstdint>

#include "core/bf16.h"
#include "core/cuda/kernel.cuh"

namespace poseidon::cuda {

/// Bytes in one load or store of a thread.
inline constexpr int64_t kPackBytes = 16;

template <class Element>
inline constexpr int kPack = static_cast<int>(kPackBytes / sizeof(Element));

/// Sixteen bytes of adjacent elements, converted to float for computation.
template <class Element>
struct Pack {
  static constexpr int kCount = kPack<Element>;
  float values[kCount];

  POSEIDON_DEVICE float& operator[](int i) { return values[i]; }
  POSEIDON_DEVICE const float& operator[](int i) const { return values[i]; }
};

/// The representation of a pack in memory.
template <class Element>
struct alignas(kPackBytes) PackedElements {
  Element elements[kPack<Element>];
};

POSEIDON_DEVICE bool is_pack_aligned(const void* data) {
  return reinterpret_cast<uintptr_t>(data) % kPackBytes == 0;
}

/// Loads the pack at an address that is a multiple of 16.
template <class Element>
POSEIDON_DEVICE Pack<Element> load_pack(const Element* from) {
  assert(is_pack_aligned(from));
  const auto packed = *reinterpret_cast<const PackedElements<Element>*>(from);
  Pack<Element> pack;
#pragma unroll
  for (int i = 0; i < Pack<Element>::kCount; ++i) pack[i] = packed.elements[i];
  return pack;
}

template <class Element>
POSEIDON_DEVICE void store_pack(Element* to, const Pack<Element>& pack) {
  assert(is_pack_aligned(to));
  PackedElements<Element> packed;
#pragma unroll
  for (int i = 0; i < Pack<Element>::kCount; ++i) packed.elements[i] = pack[i];
  *reinterpret_cast<PackedElements<Element>*>(to) = packed;
}

}  // namespace poseidon::cuda
