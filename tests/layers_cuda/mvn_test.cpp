#include "tests/layers_cuda/compare_with_cpu.h"
#include "tests/support/sanitizers.h"

using namespace poseidon;
using namespace poseidon::test;

TEST_CASE("mvn on a GPU: all widths, bands of rows and contributions match the CPU") {
  for (const bool across : {false, true})
    for (const bool variance : {false, true})
      for (const Shape& shape : {Shape{3, 72, 5, 2}, Shape{2, 37, 3, 3}, Shape{2, 33, 40, 25},
                                 Shape{150, 4, 3, 3}, Shape{5, 1, 7, 9}})
        for (const size_t contributions : {1, 5}) {
          const bool is_slow = kIsSanitized && shape.count() > 1000;
          if (is_slow && contributions > 1) continue;
          CAPTURE(across);
          CAPTURE(variance);
          CAPTURE(shape.text());
          CAPTURE(contributions);
          LayerCase layer{
              .json = {{"type", "mvn"}, {"across_channels", across}, {"variance", variance}},
              .inputs = {shape}};
          check_each_type(layer, contributions, 1e-5, 2e-2);
          if (is_slow) continue;
          layer.in_place = true;
          check_each_type(layer, contributions, 1e-5, 2e-2);
        }
}
