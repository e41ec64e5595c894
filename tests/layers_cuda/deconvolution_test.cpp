// Branches of the GPU's kernels that the tests for all devices do not reach.

#include "tests/layers_cuda/compare_with_cpu.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

LayerCase deconvolution_of(Json fields, Shape input) {
  fields["type"] = "deconvolution";
  fields["name"] = "up";
  return {.json = fields, .inputs = {input}};
}

void check(const LayerCase& layer, size_t contributions = 1) {
  CAPTURE(layer.json.dump());
  CAPTURE(layer.inputs[0].text());
  check_against_cpu(layer, random_inputs(LayerRunner(layer), layer, contributions));
}

}  // namespace

TEST_CASE("cuda deconvolution: channel counts that do not fill a pack, with and without bias") {
  for (const int64_t outputs : {1, 3, 8, 20})
    for (const bool bias : {true, false})
      for (const int64_t inputs : {2, 5, 16})
        check(deconvolution_of({{"outputs", outputs}, {"kernel", 3}, {"stride", 2}, {"bias", bias}},
                               {2, inputs, 3, 5}),
              2);
}

TEST_CASE("cuda deconvolution: groups, rectangular kernels, dilation and 1 x 1 kernels") {
  check(deconvolution_of({{"outputs", 6}, {"kernel", {2, 3}}, {"groups", 2}}, {1, 10, 4, 4}));
  check(deconvolution_of({{"outputs", 8}, {"kernel", 4}, {"stride", 2}, {"groups", 8}},
                         {2, 8, 4, 4}));
  check(deconvolution_of({{"outputs", 5}, {"kernel", 3}, {"dilation", {1, 2}}, {"padding", 1}},
                         {1, 4, 4, 5}));
  check(deconvolution_of({{"outputs", 12}, {"kernel", 1}}, {1, 4, 4, 5}));
}

TEST_CASE("cuda deconvolution: forward only, and backward without the input gradient") {
  LayerCase layer = deconvolution_of({{"outputs", 8}, {"kernel", 4}, {"stride", 2}, {"padding", 1}},
                                     {2, 3, 5, 5});
  for (const DataType type : {DataType::kFp32, DataType::kBf16}) {
    layer.type = type;
    layer.training = true;
    LayerRunner training(layer);
    const LayerInputs values = random_inputs(training, layer, 0);
    layer.training = false;
    LayerRunner testing(layer);
    CHECK(testing.needs().workspace_bytes == 0);
    CHECK(testing.forward(values) == training.forward(values));
  }
  layer.training = true;
  layer.type = DataType::kFp32;
  layer.input_needs_gradient = {false};
  check(layer);
}

TEST_CASE("cuda deconvolution: all algorithms produce equal bits, a layout choice is refused") {
  LayerCase layer = deconvolution_of({{"outputs", 4}, {"kernel", 3}}, {1, 2, 4, 4});
  LayerRunner usual(layer);
  const LayerInputs values = random_inputs(usual, layer, 1);
  const LayerResults expected = usual.run(values);
  const std::vector<layers::AlgorithmChoice> others = usual.layer().alternatives();
  CHECK(others.size() == 3);
  for (const layers::AlgorithmChoice& other : others) {
    layer.choice = other;
    LayerRunner chosen(layer);
    CHECK(chosen.layer().choice() == other);
    const LayerResults got = chosen.run(values);
    CHECK(got.output == expected.output);
    CHECK(got.input_gradients == expected.input_gradients);
    CHECK(got.parameter_gradients == expected.parameter_gradients);
  }
  layer.choice = {};
  layer.choice.layout = "channels_last";
  CHECK_THROWS_WITH(
      LayerRunner{layer},
      "[deconvolution 'up'] the layout \"channels_last\" is chosen, but a GPU has no choice of "
      "layouts; remove \"layout\" from the choices");
}
