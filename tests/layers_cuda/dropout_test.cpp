#include "tests/layers_cuda/compare_with_cpu.h"

using namespace poseidon;
using namespace poseidon::test;

TEST_CASE("dropout on GPUs: every kernel produces the CPU's masks") {
  LayerCase layer{.json = {{"type", "dropout"}, {"name", "drop"}, {"probability", 0.4}},
                  .inputs = {}};
  layer.numbers.first_sample = 1234567;
  for (const Shape& shape :
       {Shape{3, 4100}, Shape{3, 4099}, Shape{2, 5},  // dense, whole and partial packs
        Shape{2, 24, 1, 1}, Shape{3, 1, 5, 7},        // dense, as images
        Shape{2, 24, 4, 6},
        Shape{2, 24, 5, 7},  // packs of channels, whole and partial Philox blocks
        Shape{2, 7, 4, 6}, Shape{2, 7, 3, 3}, Shape{1, 72, 13, 13}}) {
    CAPTURE(shape.text());
    layer.inputs = {shape};
    for (const bool in_place : {false, true}) {
      layer.in_place = in_place;
      check_each_type(layer, 1, 0, 0);
    }
    check_each_type(layer, 3, 1e-6, 1e-2);
    LayerCase testing = layer;
    testing.step.phase = layers::Phase::kTest;
    check_each_type(testing, 1, 0, 0);
  }
}
