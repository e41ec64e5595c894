#include "tests/layers_cuda/compare_with_cpu.h"
#include "tests/support/sanitizers.h"

using namespace poseidon;
using namespace poseidon::test;

TEST_CASE("prelu, scale and bias on a GPU: all widths and contributions match the CPU") {
  for (const Json& json : std::vector<Json>{{{"type", "prelu"}},
                                            {{"type", "prelu"}, {"shared", true}},
                                            {{"type", "scale"}},
                                            {{"type", "scale"}, {"bias", true}},
                                            {{"type", "bias"}}})
    for (const Shape& shape : {Shape{3, 72, 5, 2}, Shape{2, 37, 3, 3}, Shape{4, 33, 20, 20},
                               Shape{300, 20}, Shape{1, 1, 7, 9}})
      for (const size_t contributions : {1, 5}) {
        if (kIsSanitized && shape.count() > 10000 && contributions > 1) continue;
        CAPTURE(json.dump());
        CAPTURE(shape.text());
        CAPTURE(contributions);
        LayerCase layer{.json = json, .inputs = {shape}};
        for (const bool in_place : {false, true}) {
          layer.in_place = in_place;
          check_each_type(layer, contributions, 1e-5, 2e-2);
        }
      }
}

TEST_CASE("scale by a second input on a GPU: results match the CPU") {
  for (const bool bias : {false, true})
    for (const Shape& shape :
         {Shape{3, 72, 5, 2}, Shape{2, 37, 3, 3}, Shape{4, 33, 20, 20}, Shape{70, 20}})
      for (const int64_t channels : {int64_t{1}, shape.channels()})
        for (const size_t contributions : {1, 5}) {
          if (kIsSanitized && shape.count() > 10000 && contributions > 1) continue;
          CAPTURE(shape.text());
          CAPTURE(channels);
          CAPTURE(contributions);
          LayerCase layer{.json = {{"type", "scale"}, {"bias", bias}},
                          .inputs = {shape, Shape{shape.samples(), channels}}};
          check_each_type(layer, contributions, 1e-5, 2e-2);
          layer.in_place = true;
          check_each_type(layer, contributions, 1e-5, 2e-2);
        }
}

TEST_CASE("scale by a second input on a GPU: only one of the inputs needs a gradient") {
  for (const bool first : {false, true}) {
    LayerCase layer{.json = {{"type", "scale"}},
                    .inputs = {{2, 16, 3, 4}, {2, 16, 1, 1}},
                    .input_needs_gradient = {first, !first}};
    check_each_type(layer, 2, 1e-5, 2e-2);
  }
}
