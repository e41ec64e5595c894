#include "layers/tile.h"

#include "core/error.h"

namespace poseidon::layers {

void Tile::describe(Fields& fields) {
  fields.integer("tiles", tiles, between(1, 1 << 20), "number of copies", Presence::kRequired);
}

Shape Tile::infer(std::span<const Shape> inputs) {
  expect_inputs(inputs, 1);
  Shape output = inputs[0];
  if (output.rank() < 2) fail(text("expected an input with channels, got ", output.text()));
  output[1] *= tiles;
  return output;
}

}  // namespace poseidon::layers
