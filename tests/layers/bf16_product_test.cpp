// Products of bf16 patches that have several depths, blocks, tasks and strips: close to fp32, and
// with equal bits for each number of threads. small_geometries_test.cpp has small ones.

#include <doctest/doctest.h>

#include "tests/support/gradient_check.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

struct Bf16Geometry {
  const char* what;
  std::array<int64_t, 4> input;
  int64_t outputs;
  std::array<int64_t, 2> kernel;
  std::array<int64_t, 4> padding{0, 0, 0, 0};  ///< top, bottom, left, right
  int64_t groups = 1;
  std::array<int64_t, 2> stride{1, 1}, dilation{1, 1};

  LayerCase layer() const {
    return {.json = {{"name", "layer"},
                     {"type", "convolution"},
                     {"outputs", outputs},
                     {"groups", groups},
                     {"kernel", kernel},
                     {"stride", stride},
                     {"dilation", dilation},
                     {"padding", padding}},
            .inputs = {{input[0], input[1], input[2], input[3]}},
            .type = DataType::kBf16};
  }
};

const std::vector<Bf16Geometry> kBf16Geometries{
    {"several depths, a result wider than a task", {2, 70, 9, 11}, 300, {3, 5}, {1, 1, 2, 2}},
    {"several depths of patches", {3, 90, 12, 13}, 33, {3, 3}, {1, 0, 1, 0}, 1, {2, 2}},
    {"several blocks of positions", {5, 18, 40, 41}, 20, {3, 3}, {1, 1, 1, 1}},
    {"an odd number of cells", {3, 20, 31, 33}, 17, {4, 2}, {1, 1, 0, 1}},
    {"adjacent taps in several units", {4, 12, 30, 28}, 9, {3, 9}, {1, 1, 4, 4}},
    {"an image, with adjacent taps", {6, 3, 40, 38}, 24, {5, 7}, {2, 2, 3, 3}},
    {"an image with strides", {6, 4, 45, 40}, 24, {7, 7}, {3, 3, 3, 3}, 1, {2, 3}},
    {"a kernel that is larger than the image", {40, 6, 5, 4}, 40, {7, 6}, {4, 4, 4, 4}},
    {"groups that are computed together", {4, 24, 18, 17}, 40, {3, 3}, {1, 1, 1, 1}, 8},
    {"single channels that are computed together", {4, 15, 19, 17}, 30, {2, 3}, {1, 0, 1, 1}, 15},
    {"groups that are not computed together", {3, 57, 14, 15}, 39, {3, 3}, {1, 1, 1, 1}, 3},
    {"dilation, and inputs without a tap",
     {3, 27, 20, 22},
     46,
     {3, 4},
     {0, 0, 2, 2},
     1,
     {2, 2},
     {2, 2}},
    {"many samples of few places", {70, 40, 3, 3}, 50, {3, 3}, {1, 1, 1, 1}},
    {"one cell", {300, 40, 1, 1}, 20, {1, 1}}};

}  // namespace

TEST_CASE("bf16 products of patches are close to fp32") {
  for (const Bf16Geometry& geometry : kBf16Geometries) {
    CAPTURE(std::string(geometry.what));
    const LayerCase layer = geometry.layer();
    check_bf16(layer, random_inputs(LayerRunner(layer), layer, 1));
  }
}

TEST_CASE("bf16 products of patches have equal bits for each number of threads") {
  for (const Bf16Geometry& geometry : kBf16Geometries) {
    CAPTURE(std::string(geometry.what));
    LayerCase layer = geometry.layer();
    const LayerInputs values = random_inputs(LayerRunner(layer), layer, 1);
    const LayerResults one = LayerRunner(layer).run(values);
    for (const int threads : {2, 3, 5}) {
      CAPTURE(threads);
      layer.threads = threads;
      const LayerResults more = LayerRunner(layer).run(values);
      CHECK((more.output == one.output));
      CHECK((more.input_gradients[0] == one.input_gradients[0]));
      for (size_t i = 0; i < one.parameter_gradients.size(); ++i)
        CHECK((more.parameter_gradients[i] == one.parameter_gradients[i]));
    }
  }
}
