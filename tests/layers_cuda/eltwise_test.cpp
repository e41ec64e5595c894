#include "tests/layers_cuda/compare_with_cpu.h"

using namespace poseidon;
using namespace poseidon::test;

TEST_CASE("eltwise on GPUs: more inputs and contributions than one kernel accepts match the CPU") {
  for (const char* operation : {"sum", "product", "maximum"})
    for (const size_t inputs : {2, 4, 5, 9})
      for (const size_t contributions : {1, 4, 9}) {
        CAPTURE(std::string(operation));
        CAPTURE(inputs);
        CAPTURE(contributions);
        const Shape shape = inputs == 5 ? Shape{2, 72, 4, 5} : Shape{3, 7};
        LayerCase layer{.json = {{"type", "eltwise"}, {"operation", operation}},
                        .inputs = std::vector<Shape>(inputs, shape)};
        check_each_type(layer, contributions, 1e-5, 2e-2);
        layer.in_place = true;
        if (operation[0] == 's') layer.relu = 0.25F;
        check_each_type(layer, contributions, 1e-5, 2e-2);
        layer.input_needs_gradient = std::vector<bool>(inputs, true);
        layer.input_needs_gradient[0] = false;
        check_each_type(layer, contributions, 1e-5, 2e-2);
      }
}

TEST_CASE("eltwise on GPUs: the first of many equal maxima receives the gradient") {
  LayerCase layer{.json = {{"type", "eltwise"}, {"operation", "maximum"}},
                  .inputs = std::vector<Shape>(7, Shape{1, 1})};
  for (const size_t winner : {0, 3, 4, 6}) {
    LayerInputs values{.inputs = std::vector<Values>(7, {0}), .output_gradients = {{5}}};
    for (size_t k = winner; k < 7; ++k) values.inputs[k] = {1};
    const LayerResults results = LayerRunner(layer).run(values);
    for (size_t k = 0; k < 7; ++k)
      CHECK(results.input_gradients[k] == Values{k == winner ? 5.0F : 0.0F});
  }
}
