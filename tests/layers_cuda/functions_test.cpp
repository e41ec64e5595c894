#include "tests/layers_cuda/compare_with_cpu.h"

using namespace poseidon;
using namespace poseidon::test;

TEST_CASE("functions on GPUs: full and partial packs with any contributions match the CPU") {
  for (const Json& json :
       std::vector<Json>{{{"type", "absval"}},
                         {{"type", "bnll"}},
                         {{"type", "clip"}, {"minimum", -0.5}, {"maximum", 0.25}},
                         {{"type", "elu"}, {"alpha", 0.75}},
                         {{"type", "exp"}, {"base", 3}, {"scale", 2}, {"shift", 0.5}},
                         {{"type", "log"}, {"base", 2}, {"scale", 0.5}, {"shift", 1}},
                         {{"type", "power"}, {"scale", -2}, {"shift", 1}},
                         {{"type", "power"}, {"power", 2}, {"shift", 1}},
                         {{"type", "power"}, {"power", -1.5}, {"shift", 1.5}},
                         {{"type", "power"}, {"power", 5}},
                         {{"type", "relu"}, {"slope", 0.1}},
                         {{"type", "sigmoid"}},
                         {{"type", "swish"}, {"beta", 1.5}},
                         {{"type", "tanh"}},
                         {{"type", "threshold"}, {"threshold", 0.25}}})
    for (const Shape& shape : {Shape{3, 7}, Shape{2, 72, 4, 5}, Shape{1, 5, 3, 3}})
      for (const size_t contributions : {1, 2, 5}) {
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
