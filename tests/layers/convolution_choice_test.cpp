// The CPU's choices of layout and algorithm.

#include <doctest/doctest.h>

#include "tests/support/gradient_check.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

Json convolution(Json fields) {
  fields["type"] = "convolution";
  fields["name"] = "conv";
  return fields;
}

}  // namespace

TEST_CASE("convolution: gradients by Winograd's method and by the direct one") {
  const Json of_3 = {{"outputs", 32}, {"kernel", 3}, {"padding", 1}};
  const Json of_5 = {{"outputs", 32}, {"kernel", 5}, {"padding", 2}, {"groups", 2}};
  for (const Json& fields : {of_3, of_5})
    for (const char* method : {"winograd", "direct"}) {
      CAPTURE(fields.dump());
      CAPTURE(std::string(method));
      LayerCase layer{.json = convolution(fields),
                      .inputs = {{1, 32, 8, 8}},
                      .layout = Layout::kBlocked16,
                      .choice = {.layout = "",
                                 .forward = method,
                                 .backward_data = method,
                                 .backward_weights = method}};
      LayerRunner runner(layer);
      const LayerInputs values = random_inputs(runner, layer, 1);
      check_gradients(layer, values, {.step = 3e-2F, .most_elements = 20});
      check_bf16(layer, values);
    }
}

TEST_CASE("convolution: every layout and method gives the same result") {
  const Json json = convolution({{"outputs", 64}, {"kernel", 3}, {"padding", 1}});
  LayerCase plain{.json = json, .inputs = {{2, 64, 9, 9}}};
  LayerRunner first(plain);
  const LayerInputs values = random_inputs(first, plain, 1);
  const LayerResults expected = first.run(values);
  for (const char* layout : {"plain", "channels_last", "blocked8", "blocked16"})
    for (const char* method : {"direct", "winograd"}) {
      CAPTURE(std::string(layout));
      CAPTURE(std::string(method));
      LayerCase other = plain;
      other.choice = {
          .layout = layout, .forward = method, .backward_data = method, .backward_weights = method};
      const LayerResults got = LayerRunner(other).run(values);
      check_close(got.output, expected.output, 1e-5, "output");
      check_close(got.input_gradients[0], expected.input_gradients[0], 1e-5, "input gradient");
      check_close(got.parameter_gradients[0], expected.parameter_gradients[0], 1e-5,
                  "weight gradient");
      check_close(got.parameter_gradients[1], expected.parameter_gradients[1], 1e-5,
                  "bias gradient");
    }
}
