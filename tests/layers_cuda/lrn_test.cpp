// Branches of the GPU's local response normalization that the tests for all devices do not reach.

#include <doctest/doctest.h>

#include "tests/layers_cuda/compare_with_cpu.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

void check(const char* region, int64_t size, const Shape& shape, double beta) {
  const Json json{{"type", "lrn"}, {"size", size}, {"alpha", 2},
                  {"beta", beta},  {"k", 1.5},     {"region", region}};
  CAPTURE(json.dump());
  CAPTURE(shape.text());
  const LayerCase layer{.json = json, .inputs = {shape}};
  check_against_cpu(layer, random_inputs(LayerRunner(layer), layer, 1));
}

}  // namespace

TEST_CASE("lrn on a GPU: windows across channel packs and block boundaries") {
  for (const int64_t channels : {4, 8, 12, 24, 96})
    check("across_channels", 5, {2, channels, 9, 8}, 0.75);
  check("across_channels", 5, {700, 16}, 0.6);
}

TEST_CASE("lrn on a GPU: windows below and above a pack, and above all channels") {
  for (const int64_t size : {1, 9, 11, 17, 19, 99}) {
    check("across_channels", size, {2, 24, 5, 4}, 0.75);
    check("across_channels", size, {2, 7, 5, 4}, 0.5);
  }
}

TEST_CASE("lrn on a GPU: windows within a channel, with channel packs and single channels") {
  for (const int64_t channels : {7, 12, 16})
    for (const int64_t size : {1, 3, 5, 15}) {
      check("within_channel", size, {2, channels, 6, 5}, 0.75);
      check("within_channel", size, {3, channels, 1, 9}, 0.6);
    }
}

TEST_CASE("lrn on a GPU: sums of very different magnitude match the CPU") {
  for (const double beta : {0.75, 0.7}) {
    const Json json{{"type", "lrn"}, {"size", 3}, {"alpha", 3}, {"beta", beta}, {"k", 1e-4}};
    const LayerCase layer{.json = json, .inputs = {{1, 8, 2, 2}}};
    LayerInputs values = random_inputs(LayerRunner(layer), layer, 1);
    for (size_t i = 0; i < values.inputs[0].size(); ++i)
      values.inputs[0][i] *= std::pow(10.0F, static_cast<float>(i % 9) - 4);
    LayerCase of_cpu = layer;
    of_cpu.backend = make_cpu_backend;
    const Values got = LayerRunner(layer).forward(values);
    const Values expected = LayerRunner(of_cpu).forward(values);
    for (size_t i = 0; i < got.size(); ++i)
      CHECK(static_cast<double>(got[i]) ==
            doctest::Approx(static_cast<double>(expected[i])).epsilon(4e-6).scale(0));
  }
}
