#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "core/bf16.h"
#include "core/tensor.h"

namespace poseidon::layers::cpu {

/// Channels of a block in the blocked layout, on the processors that this code is compiled for.
#ifdef __AVX512F__
inline constexpr int kLanesOfBlock = 16;
#else
inline constexpr int kLanesOfBlock = 8;
#endif

/// Types of vectors with kLanes lanes. In most loops a lane is a channel.
template <int kLanes>
struct Vectors {
  typedef float Float __attribute__((vector_size(4 * kLanes)));
  typedef int32_t Int __attribute__((vector_size(4 * kLanes)));
  typedef uint32_t Bits __attribute__((vector_size(4 * kLanes)));
  typedef uint16_t Place __attribute__((vector_size(2 * kLanes)));
};

/// load() and store() allow unaligned memory. With channels last a vector may begin anywhere.
template <class Vector, class Element>
Vector load(const Element* memory) {
  Vector vector;
  std::memcpy(&vector, memory, sizeof vector);
  return vector;
}
template <class Vector, class Element>
void store(Element* memory, const Vector& vector) {
  std::memcpy(memory, &vector, sizeof vector);
}

/// The bf16 bits of each lane, in its lower half (core/bf16.h).
template <class Float>
[[gnu::always_inline]] inline auto rounded_to_bf16(const Float& vector) {
  using Bits = typename Vectors<sizeof(Float) / sizeof(float)>::Bits;
  const auto bits = std::bit_cast<Bits>(vector);
  const Bits nearest = (bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16;
  return vector == vector ? nearest : Bits{} + Bf16::kNan;
}

/// load() and store() for memory with bf16 elements. The vectors are floats.
template <class Float>
[[gnu::always_inline]] inline Float load(const Bf16* memory) {
  constexpr int kLanes = sizeof(Float) / sizeof(float);
  using Bits = typename Vectors<kLanes>::Bits;
  const auto halves =
      load<typename Vectors<kLanes>::Place>(reinterpret_cast<const uint16_t*>(memory));
  return std::bit_cast<Float>(__builtin_convertvector(halves, Bits) << 16);
}
template <class Float>
[[gnu::always_inline]] inline void store(Bf16* memory, const Float& vector) {
  constexpr int kLanes = sizeof(Float) / sizeof(float);
  store(reinterpret_cast<uint16_t*>(memory),
        __builtin_convertvector(rounded_to_bf16(vector), typename Vectors<kLanes>::Place));
}

/// Calls body with a value of the C++ type of a tensor's elements.
template <class Body>
auto with_element_of(DataType type, const Body& body) {
  if (type == DataType::kBf16) return body(Bf16{});
  return body(float{});
}

}  // namespace poseidon::layers::cpu
