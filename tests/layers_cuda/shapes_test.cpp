// Layers that move or count elements: GPU kernels compared with the CPU's.

#include "tests/layers_cuda/compare_with_cpu.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

/// Whole and partial packs of channels, one sample and several, features.
const std::vector<Shape>& shapes() {
  static const std::vector<Shape> kShapes{{2, 3, 5, 7},  {1, 8, 4, 4},   {3, 72, 6, 5},
                                          {2, 20, 1, 1}, {2, 1, 17, 19}, {3, 7},
                                          {2, 64},       {1, 4100}};
  return kShapes;
}

}  // namespace

TEST_CASE("tile on GPUs: rows of all widths match the CPU") {
  for (const Shape& shape : shapes())
    for (const int64_t tiles : {1, 2, 5}) {
      CAPTURE(shape.text());
      CAPTURE(tiles);
      const LayerCase layer{.json = {{"type", "tile"}, {"tiles", tiles}}, .inputs = {shape}};
      check_each_type(layer, 1, 0, 2e-2);
      check_each_type(layer, 6, 1e-6, 2e-2);
    }
}

TEST_CASE("slice on GPUs: ranges of all widths match the CPU") {
  for (const Shape& shape : {Shape{2, 72, 3, 5}, Shape{3, 40}})
    for (const auto& range :
         {std::pair{0, 0}, {0, 8}, {8, 24}, {16, 0}, {2, 6}, {4, 36}, {7, 8}, {5, 39}}) {
      const int begin = range.first, end = range.second;
      CAPTURE(shape.text());
      CAPTURE(begin);
      CAPTURE(end);
      const LayerCase layer{.json = {{"type", "slice"}, {"begin", begin}, {"end", end}},
                            .inputs = {shape}};
      check_each_type(layer, 1, 0, 0);
      check_each_type(layer, 4, 1e-6, 1e-2);
    }
}

TEST_CASE("crop on GPUs: crops at all edges match the CPU") {
  for (const int64_t channels : {1, 3, 8, 72})
    for (const auto& each : {std::pair{std::vector{0, 0}, Shape{2, 1, 4, 9}},
                             {{3, 2}, Shape{2, 5, 4, 7}},
                             {{2, 1}, Shape{2, 8, 2, 1}},
                             {{0, 0}, Shape{2, 8, 7, 9}}}) {
      CAPTURE(channels);
      CAPTURE(each.second.text());
      const LayerCase layer{.json = {{"type", "crop"}, {"offset", each.first}},
                            .inputs = {{2, channels, 7, 9}, each.second}};
      check_each_type(layer, 1, 0, 0);
      check_each_type(layer, 6, 1e-6, 1e-2);
    }
}

TEST_CASE("reduction on GPUs: rows for one warp and for one block match the CPU") {
  for (const Shape& shape : shapes())
    for (const char* operation : {"sum", "asum", "sumsq", "mean"}) {
      CAPTURE(shape.text());
      CAPTURE(std::string(operation));
      const LayerCase layer{
          .json = {{"type", "reduction"}, {"operation", operation}, {"coefficient", 0.7}},
          .inputs = {shape}};
      check_each_type(layer, 2, 1e-6, 1e-2);
    }
}

TEST_CASE("reduction and argmax on GPUs: equal bits for any order of blocks and threads") {
  for (const Json& json : {Json{{"type", "reduction"}, {"operation", "sumsq"}},
                           Json{{"type", "argmax"}, {"top_k", 9}, {"values", true}}}) {
    const LayerCase layer{.json = json, .inputs = {{2, 24, 9, 11}}};
    LayerRunner runner(layer);
    const LayerInputs values = random_inputs(runner, layer, 1);
    const LayerResults first = runner.run(values);
    for (int again = 0; again < 3; ++again) {
      const LayerResults other = runner.run(values);
      CHECK(other.output == first.output);
      CHECK(other.input_gradients == first.input_gradients);
    }
  }
}
