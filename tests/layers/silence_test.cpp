#include <doctest/doctest.h>

#include "tests/support/gradient_check.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

const Json kSilence{{"type", "silence"}};

}  // namespace

TEST_CASE("silence: inputs of any shape and layout are accepted, and the output is zero") {
  for (const Layout layout :
       {Layout::kPlain, Layout::kChannelsLast, Layout::kBlocked8, Layout::kBlocked16})
    for (const DataType type : {DataType::kFp32, DataType::kBf16}) {
      LayerCase layer{.json = kSilence,
                      .inputs = {{3, 5, 2, 2}, {3, 7}, {3, 16, 1, 2}},
                      .layout = layout,
                      .type = type};
      const LayerInputs values = random_inputs(LayerRunner(layer), layer, 1);
      CHECK(LayerRunner(layer).needs().input_formats[0] == Format{layout, type});
      const LayerResults got = LayerRunner(layer).run(values);
      CHECK(got.output == Values(3));
      for (size_t i = 0; i < values.inputs.size(); ++i)
        CHECK(got.input_gradients[i] == Values(values.inputs[i].size()));
    }
}

TEST_CASE("silence: a layer without inputs is refused") {
  CHECK_THROWS_WITH(define(kSilence, {}), "[silence 'layer'] expected at least 1 input, got 0");
}
