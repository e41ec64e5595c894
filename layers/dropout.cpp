#include "layers/dropout.h"

namespace poseidon::layers {

void Dropout::describe(Fields& fields) {
  fields.number("probability", probability, between(0, 1),
                "probability that an element is dropped; below 1");
}

Shape Dropout::infer(std::span<const Shape> inputs) {
  expect_inputs(inputs, 1);
  if (probability >= 1) fail("\"probability\": 1 would drop everything, expected less than 1");
  return inputs[0];
}

uint32_t Dropout::threshold() const { return static_cast<uint32_t>(probability * 0x1p32); }

// FNV-1a: a hash that stays the same on every machine and in every version.
uint64_t Dropout::key() const {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char letter : name) {
    hash ^= static_cast<unsigned char>(letter);
    hash *= 0x100000001B3u;
  }
  return hash;
}

}  // namespace poseidon::layers
