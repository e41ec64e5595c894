#include "tests/layers_cuda/compare_with_cpu.h"

using namespace poseidon;
using namespace poseidon::test;

TEST_CASE("concat on GPUs: rows of all widths match the CPU") {
  using Widths = std::vector<int64_t>;
  for (const Widths& widths : {Widths{16, 8, 32}, Widths{4, 12}, Widths{2, 6, 8}, Widths{64, 3},
                               Widths{5}, Widths{8, 16, 8, 8, 24, 8, 8, 8, 40, 8, 8},
                               Widths{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}}) {
    CAPTURE(widths.size());
    CAPTURE(widths[0]);
    LayerCase layer{.json = {{"type", "concat"}}, .inputs = {}};
    for (const int64_t width : widths) layer.inputs.push_back({2, width, 3, 5});
    check_each_type(layer, 1, 0, 0);
    check_each_type(layer, 3, 1e-6, 1e-2);
    layer.input_needs_gradient.clear();
    for (size_t i = 0; i < widths.size(); ++i) layer.input_needs_gradient.push_back(i % 3 == 1);
    check_each_type(layer, 1, 0, 0);
  }
}
