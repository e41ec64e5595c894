#pragma once

#include <cstdint>
#include <cstring>

namespace poseidon::layers::cpu {

/// kLanes channels that lie side by side, as one vector.
template <int kLanes>
struct Vectors {
  typedef float Float __attribute__((vector_size(4 * kLanes)));
  typedef int32_t Int __attribute__((vector_size(4 * kLanes)));
  typedef uint16_t Place __attribute__((vector_size(2 * kLanes)));
};

/// Unaligned: with channels last a vector may begin anywhere.
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

}  // namespace poseidon::layers::cpu
