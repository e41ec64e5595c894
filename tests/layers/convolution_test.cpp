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

void check(const Json& fields, Shape input, std::optional<float> relu = std::nullopt) {
  CAPTURE(fields.dump());
  check_gradients_everywhere({.json = convolution(fields), .inputs = {input}, .relu = relu},
                             {.step = 3e-2F, .most_elements = 12, .kinks = relu.has_value()});
}

}  // namespace

TEST_CASE("convolution: gradients with three and with one input channel") {
  check({{"outputs", 16}, {"kernel", 3}, {"padding", 1}}, {2, 3, 6, 6});
  check({{"outputs", 16}, {"kernel", 5}, {"stride", 2}}, {2, 1, 9, 9});
}

TEST_CASE("convolution: gradients with rectangular kernel, stride, padding and dilation") {
  check({{"outputs", 16}, {"kernel", {3, 2}}, {"stride", {1, 2}}, {"padding", {1, 0}}},
        {2, 16, 5, 7});
  check({{"outputs", 8}, {"kernel", {1, 3}}, {"padding", {0, 2}}, {"dilation", {1, 2}}},
        {2, 8, 3, 7});
}

TEST_CASE("convolution: gradients with channel counts that do not fill a block") {
  check({{"outputs", 5}, {"kernel", 3}, {"padding", 1}}, {2, 7, 4, 4});
  check({{"outputs", 20}, {"kernel", 5}}, {2, 1, 8, 8});
  check({{"outputs", 50}, {"kernel", 3}}, {1, 20, 4, 4});
}

TEST_CASE("convolution: gradients without bias") {
  check({{"outputs", 16}, {"kernel", 1}, {"bias", false}}, {2, 16, 3, 3});
  check({{"outputs", 32}, {"kernel", 1}, {"stride", 2}, {"bias", false}}, {2, 16, 5, 5});
}

TEST_CASE("convolution: bf16 with 1 x 1 kernels, for odd areas and odd block counts") {
  for (const bool bias : {true, false})
    for (const Shape& input : {Shape{2, 32, 7, 7}, Shape{1, 48, 4, 6}, Shape{3, 16, 19, 21}})
      for (const int64_t outputs : {16, 48, 64}) {
        CAPTURE(input.text());
        CAPTURE(outputs);
        LayerCase layer{.json = convolution({{"outputs", outputs}, {"kernel", 1}, {"bias", bias}}),
                        .inputs = {input},
                        .layout = Layout::kBlocked16};
        const LayerInputs values = random_inputs(LayerRunner(layer), layer, 1);
        check_bf16(layer, values);
        layer.type = DataType::kBf16;
        const LayerResults one = LayerRunner(layer).run(values);
        layer.threads = 3;
        CHECK(LayerRunner(layer).run(values).parameter_gradients[0] == one.parameter_gradients[0]);
      }
}

TEST_CASE("convolution: gradients with 7 x 7 and 11 x 11 kernels on images") {
  check({{"outputs", 16}, {"kernel", 7}, {"stride", 2}, {"padding", 3}, {"bias", false}},
        {1, 3, 9, 9});
  check({{"outputs", 16}, {"kernel", 11}, {"stride", 4}}, {1, 3, 15, 15});
}

TEST_CASE("convolution: gradients with groups") {
  check({{"outputs", 32}, {"kernel", 3}, {"padding", 1}, {"groups", 2}}, {1, 32, 4, 4});
  check({{"outputs", 8}, {"kernel", 3}, {"groups", 4}}, {1, 12, 4, 4});
  check({{"outputs", 16}, {"kernel", 3}, {"padding", 1}, {"groups", 16}}, {1, 16, 4, 4});
}

TEST_CASE("convolution: gradients of depthwise convolutions") {
  const auto depthwise = [](int64_t channels, Json fields) {
    fields.update({{"outputs", channels}, {"groups", channels}});
    return fields;
  };
  check(depthwise(16, {{"kernel", 3}, {"padding", 1}, {"bias", false}}), {2, 16, 5, 9});
  check(depthwise(24, {{"kernel", 5}, {"padding", 2}}), {2, 24, 7, 7});
  check(depthwise(5, {{"kernel", 3}, {"padding", 3}}), {1, 5, 4, 4});
  check(depthwise(20, {{"kernel", 5}, {"padding", 2}, {"stride", 2}}), {2, 20, 8, 9});
  check(depthwise(8, {{"kernel", {3, 4}}, {"padding", {0, 2}}, {"stride", {1, 3}}}), {1, 8, 5, 19});
  check(depthwise(16, {{"kernel", 3}, {"padding", 2}, {"dilation", 2}}), {1, 16, 7, 6});
  check(depthwise(16, {{"kernel", 3}, {"stride", 3}, {"dilation", {2, 1}}}), {1, 16, 9, 8});
  check(depthwise(8, {{"kernel", 1}, {"stride", 3}, {"padding", 1}}), {1, 8, 5, 7});
  check(depthwise(12, {{"kernel", 7}, {"padding", 3}}), {1, 12, 6, 10});
}

TEST_CASE("convolution: gradients of depthwise convolutions with a fused relu") {
  const Json fields = {{"outputs", 20}, {"groups", 20}, {"kernel", 3}};
  check(fields, {1, 20, 4, 3}, 0.0F);
  check(fields, {1, 20, 4, 3}, 0.1F);
}

TEST_CASE("convolution: depthwise convolutions with bf16") {
  for (const Shape& input : {Shape{2, 24, 7, 7}, Shape{2, 32, 9, 12}}) {
    const int64_t channels = input.channels();
    LayerCase layer{
        .json = convolution(
            {{"outputs", channels}, {"groups", channels}, {"kernel", 5}, {"padding", 2}}),
        .inputs = {input},
        .layout = Layout::kBlocked16};
    check_bf16(layer, random_inputs(LayerRunner(layer), layer, 1));
  }
}

TEST_CASE("convolution: gradients with a fused relu") {
  check({{"outputs", 16}, {"kernel", 3}, {"padding", 1}}, {2, 3, 5, 5}, 0.0F);
  check({{"outputs", 16}, {"kernel", 3}, {"padding", 1}}, {1, 16, 5, 5}, 0.1F);
}

TEST_CASE("convolution: the input gradient can be skipped") {
  LayerCase layer{.json = convolution({{"outputs", 16}, {"kernel", 3}}),
                  .inputs = {{2, 3, 5, 5}},
                  .input_needs_gradient = {false}};
  check_gradients(layer, random_inputs(LayerRunner(layer), layer, 2), {.step = 3e-2F});
}

TEST_CASE("convolution: invalid geometry is refused") {
  const auto refuse = [](Json fields, Shape input) {
    define(convolution(std::move(fields)), {input});
  };
  CHECK_THROWS_WITH(refuse({{"outputs", 4}, {"kernel", 3}}, {2, 10}),
                    "[convolution 'conv'] expected an input with height and width, got 2x10");
  CHECK_THROWS_WITH(refuse({{"outputs", 4}, {"kernel", 3}, {"groups", 2}}, {1, 3, 5, 5}),
                    "[convolution 'conv'] input has 3 channels, not a multiple of \"groups\": 2");
  CHECK_THROWS_WITH(refuse({{"outputs", 5}, {"kernel", 3}, {"groups", 2}}, {1, 4, 5, 5}),
                    "[convolution 'conv'] \"outputs\": 5 is not a multiple of \"groups\": 2");
  CHECK_THROWS_WITH(refuse({{"outputs", 4}, {"kernel", {3, 7}}}, {1, 4, 5, 5}),
                    "[convolution 'conv'] kernel spans 7 but the padded input has only 5 columns");
  CHECK_THROWS_WITH(refuse({{"outputs", 4}, {"kernel", 3}, {"dilation", 4}}, {1, 4, 5, 5}),
                    "[convolution 'conv'] kernel spans 9 but the padded input has only 5 rows");
}
