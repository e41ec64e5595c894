// The layout that layers with several inputs choose on the CPU. GPUs have only one layout.

#include <doctest/doctest.h>

#include "tests/support/layer_runner.h"

using namespace poseidon;
using namespace poseidon::test;

TEST_CASE("eltwise: the output has the layout that most inputs have") {
  const LayerRunner runner({.json = {{"type", "eltwise"}},
                            .inputs = {{1, 16, 2, 2}, {1, 16, 2, 2}},
                            .layout = Layout::kBlocked16});
  CHECK(runner.needs().output_format.layout == Layout::kBlocked16);
}

TEST_CASE("concat: the output is blocked if its inputs fill their blocks, otherwise plain") {
  const auto layout_for = [](int64_t channels) {
    return LayerRunner({.json = {{"type", "concat"}},
                        .inputs = {{1, channels, 2, 2}, {1, 5, 2, 2}},
                        .layout = Layout::kBlocked16})
        .needs()
        .output_format.layout;
  };
  CHECK(layout_for(32) == Layout::kBlocked16);
  CHECK(layout_for(24) == Layout::kPlain);
}
