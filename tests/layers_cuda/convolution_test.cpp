// Branches of the GPU's kernels that the tests for all devices do not reach.

#include <doctest/doctest.h>

#include <numeric>

#include "tests/layers_cuda/compare_with_cpu.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

LayerCase convolution_of(Json fields, Shape input, std::optional<float> relu = std::nullopt) {
  fields["type"] = "convolution";
  fields["name"] = "conv";
  return {.json = fields, .inputs = {input}, .relu = relu};
}

void check(const LayerCase& layer, size_t contributions = 1) {
  CAPTURE(layer.json.dump());
  CAPTURE(layer.inputs[0].text());
  check_against_cpu(layer, random_inputs(LayerRunner(layer), layer, contributions));
}

}  // namespace

TEST_CASE("cuda convolution: output counts that do not fill a pack") {
  for (const int64_t outputs : {1, 2, 3, 5, 6, 7, 12, 20})
    for (const std::optional<float> relu : {std::optional<float>(), {0.0F}, {0.1F}})
      check(convolution_of({{"outputs", outputs}, {"kernel", 3}}, {1, 2, 5, 7}, relu));
}

TEST_CASE("cuda convolution: several blocks sum the bias gradient") {
  for (const int64_t outputs : {1, 6, 8, 20, 36})
    check(convolution_of({{"outputs", outputs}, {"kernel", 1}}, {3, 2, 61, 47}, 0.0F), 2);
}

TEST_CASE("cuda convolution: more outputs than a block processes at once") {
  for (const int64_t outputs : {512, 1030})
    check(convolution_of({{"outputs", outputs}, {"kernel", 1}}, {2, 2, 3, 3}, 0.1F), 2);
}

TEST_CASE("cuda convolution: one to six contributions, with and without bias and relu") {
  for (size_t contributions = 1; contributions <= 6; ++contributions)
    for (const bool bias : {true, false})
      for (const std::optional<float> relu : {std::optional<float>(), {0.1F}}) {
        CAPTURE(contributions);
        check(convolution_of({{"outputs", 6}, {"kernel", {2, 3}}, {"bias", bias}}, {2, 3, 5, 5},
                             relu),
              contributions);
      }
}

TEST_CASE("cuda convolution: large kernels, and groups with many channels") {
  check(convolution_of({{"outputs", 4}, {"kernel", 5}}, {1, 40, 6, 6}));
  check(convolution_of({{"outputs", 6}, {"kernel", {5, 7}}, {"groups", 2}}, {1, 66, 7, 8}));
  check(convolution_of({{"outputs", 4}, {"kernel", 13}}, {1, 3, 13, 13}));
}

TEST_CASE("cuda convolution: a packed weight has its channels last and unpacks unchanged") {
  const LayerCase layer =
      convolution_of({{"outputs", 4}, {"kernel", {2, 3}}, {"groups", 2}}, {1, 10, 4, 4});
  const LayerRunner runner(layer);
  CHECK(!runner.layer().packed_is_canonical(0));
  CHECK(runner.layer().packed_is_canonical(1));
  const size_t outputs = 4, channels = 5, taps = 6;
  Values canonical(outputs * channels * taps);
  std::iota(canonical.begin(), canonical.end(), 0.0F);
  DeviceMemory device(runner.device());
  float* there = device.take_floats(static_cast<int64_t>(canonical.size()));
  float* back = device.take_floats(static_cast<int64_t>(canonical.size()));
  runner.layer().pack(0, device.hold(canonical), there);
  runner.layer().unpack(0, there, back);
  const Values packed = device.values_at(there, canonical.size());
  const Values again = device.values_at(back, canonical.size());
  CHECK(again == canonical);
  for (size_t k = 0; k < outputs; ++k)
    for (size_t c = 0; c < channels; ++c)
      for (size_t tap = 0; tap < taps; ++tap)
        CHECK(packed[(k * taps + tap) * channels + c] ==
              canonical[(k * channels + c) * taps + tap]);
}

TEST_CASE("cuda convolution: 1 x 1 and depthwise weights have canonical packed order") {
  for (const Json& fields :
       {Json{{"outputs", 8}, {"kernel", 1}}, Json{{"outputs", 8}, {"kernel", 3}, {"groups", 8}}}) {
    const LayerCase layer = convolution_of(fields, {1, 8, 4, 4});
    CHECK(LayerRunner(layer).layer().packed_is_canonical(0));
    check(layer);
  }
}

TEST_CASE("cuda convolution: only the weight of a bf16 layer is read rounded") {
  LayerCase layer = convolution_of({{"outputs", 8}, {"kernel", 3}}, {2, 3, 5, 5});
  CHECK(!LayerRunner(layer).layer().reads_rounded(0));
  layer.type = DataType::kBf16;
  const LayerRunner runner(layer);
  CHECK(runner.layer().reads_rounded(0));
  CHECK(!runner.layer().reads_rounded(1));
  CHECK(runner.needs().workspace_bytes == 0);
}

TEST_CASE("cuda convolution: without an input gradient the other gradients are unchanged") {
  LayerCase layer = convolution_of({{"outputs", 8}, {"kernel", 3}}, {2, 3, 5, 5});
  layer.input_needs_gradient = {false};
  check(layer);
}

TEST_CASE("cuda convolution: a forward-only layer needs no workspace and computes equal output") {
  LayerCase layer =
      convolution_of({{"outputs", 8}, {"kernel", 3}, {"padding", 1}}, {2, 3, 5, 5}, 0.0F);
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
}

TEST_CASE("cuda convolution: results have equal bits for any order of blocks and threads") {
  LayerCase layer =
      convolution_of({{"outputs", 20}, {"kernel", 3}, {"padding", 1}}, {3, 5, 21, 23}, 0.0F);
  for (const DataType type : {DataType::kFp32, DataType::kBf16}) {
    layer.type = type;
    LayerRunner runner(layer);
    const LayerInputs values = random_inputs(runner, layer, 3);
    const LayerResults first = runner.run(values);
    for (int again = 0; again < 3; ++again) {
      const LayerResults other = runner.run(values);
      CHECK(other.output == first.output);
      CHECK(other.input_gradients == first.input_gradients);
      CHECK(other.parameter_gradients == first.parameter_gradients);
    }
  }
}
