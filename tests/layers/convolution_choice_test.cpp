// The CPU's choices of layout and algorithm for convolutions.

#include <doctest/doctest.h>

#include "core/cpu/instruction_set.h"
#include "core/error.h"
#include "core/isa.h"
#include "layers/cpu/cpu_layer.h"
#include "layers/registry.h"
#include "tests/support/error_of.h"
#include "tests/support/folders.h"
#include "tests/support/golden.h"
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

TEST_CASE("convolution: gradients with the Winograd and the direct algorithm") {
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

TEST_CASE("convolution: depthwise results on large planes are equal for any thread count") {
  // oneDNN has only reference code for at least one pass of these geometries. They have more
  // samples and cells than our kernel processes at a time.
  for (Json fields : {Json{{"kernel", 5}, {"padding", 2}},
                      Json{{"kernel", 3}, {"padding", 3}, {"stride", 2}, {"dilation", 2}}}) {
    CAPTURE(fields.dump());
    fields.update({{"outputs", 24}, {"groups", 24}});
    LayerCase layer{
        .json = convolution(fields), .inputs = {{19, 24, 50, 70}}, .layout = Layout::kBlocked16};
    const LayerInputs values = random_inputs(LayerRunner(layer), layer, 1);
    const LayerResults one = LayerRunner(layer).run(values);
    layer.threads = 3;
    const LayerResults three = LayerRunner(layer).run(values);
    CHECK(three.output == one.output);
    CHECK(three.input_gradients[0] == one.input_gradients[0]);
    for (size_t i = 0; i < 2; ++i)
      CHECK(three.parameter_gradients[i] == one.parameter_gradients[i]);
    layer.choice.layout = "channels_last";
    const LayerResults library = LayerRunner(layer).run(values);
    check_close(one.output, library.output, 1e-5, "output");
    check_close(one.input_gradients[0], library.input_gradients[0], 1e-5, "input gradient");
    for (size_t i = 0; i < 2; ++i)
      check_close(one.parameter_gradients[i], library.parameter_gradients[i], 1e-4, "gradient");
  }
}

TEST_CASE("convolution: a warning names passes for which oneDNN has only reference code") {
  const auto definition = layers::make_definition("convolution");
  definition->name = "conv1";
  const layers::LayerRequest request{.definition = *definition,
                                     .input_shapes = {{2, 3, 9, 9}},
                                     .output_shape = {2, 4, 7, 7},
                                     .input_formats = {},
                                     .input_needs_gradient = {},
                                     .relu = {},
                                     .choice = {}};
  const auto warning = [&](const layers::Implementations& by) {
    return layers::cpu::reference_code_warning(request, by);
  };
  CHECK(warning({"oneDNN jit:avx2", "Poseidon product", ""}).empty());
  CHECK(
      warning({"oneDNN jit:avx2", "oneDNN ref:any", "oneDNN simple:any"}) ==
      "[convolution 'conv1'] for the gradient of the input and the gradient of the weight, oneDNN "
      "has only slow reference code (input 2x3x9x9, output 2x4x7x7)");
}

TEST_CASE("convolution: every layout and algorithm produces the same result") {
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

TEST_CASE("convolution with the Winograd algorithm matches PyTorch") {
  Golden golden =
      read_golden(test::source_folder() + "/tests/reference/golden/convolution_winograd.txt");
  golden.layer.layout = Layout::kBlocked16;
  golden.layer.choice = {.layout = "",
                         .forward = "winograd",
                         .backward_data = "winograd",
                         .backward_weights = "winograd"};
  const LayerResults got = LayerRunner(golden.layer).run(golden.values);
  check_close(got.output, golden.expected.output, 2e-6, "output");
  check_close(got.input_gradients[0], golden.expected.input_gradients[0], 2e-6, "input gradient");
  for (size_t i = 0; i < 2; ++i)
    check_close(got.parameter_gradients[i], golden.expected.parameter_gradients[i], 2e-6,
                "parameter gradient");
}

TEST_CASE("convolution: an algorithm of another device is refused") {
  const LayerCase layer{
      .json = convolution({{"outputs", 16}, {"kernel", 3}}),
      .inputs = {{1, 16, 8, 8}},
      .choice = {
          .layout = "", .forward = "", .backward_data = "eng1_k2=0", .backward_weights = ""}};
  CHECK(error_of<ConfigError>([&] { LayerRunner runner(layer); }) ==
        "[convolution 'conv'] unknown algorithm \"eng1_k2=0\": on a CPU, expected \"direct\", "
        "\"product\" or \"winograd\"");
}

TEST_CASE("convolution: products replace the matrix product of oneDNN") {
  // oneDNN 2.6 with AVX2 selects its matrix product for these forward passes and weight gradients.
  const std::vector<std::pair<Json, Shape>> cases{
      {{{"outputs", 60}, {"kernel", 9}, {"stride", 3}, {"padding", {3, 3, 4, 4}}}, {2, 77, 27, 16}},
      {{{"outputs", 14}, {"kernel", 4}, {"padding", {0, 0, 2, 2}}, {"groups", 2}}, {2, 10, 9, 11}},
      {{{"outputs", 34}, {"kernel", 4}, {"groups", 17}}, {2, 17, 9, 19}},
      {{{"outputs", 12}, {"kernel", 10}, {"stride", {3, 2}}}, {2, 92, 12, 11}}};
  for (const auto& each : cases) {
    CAPTURE(each.first.dump());
    const LayerCase layer{.json = convolution(each.first), .inputs = {each.second}};
    LayerRunner runner(layer);
    if (has_fused_multiply_add()) {
      const layers::Implementations& by = runner.layer().implementations();
      CHECK(by.forward.find("gemm") == std::string::npos);
      CHECK(by.backward_weights.find("gemm") == std::string::npos);
    }
    check_gradients(layer, random_inputs(runner, layer, 1), {.step = 3e-2F, .most_elements = 20});
  }
}

TEST_CASE("convolution: AVX2 code in channels last computes a gradient of few output cells") {
  const LayerCase layer{.json = convolution({{"outputs", 67},
                                             {"kernel", 6},
                                             {"stride", 2},
                                             {"dilation", 3},
                                             {"padding", {0, 0, 2, 2}}}),
                        .inputs = {{2, 8, 24, 24}}};
  LayerRunner runner(layer);
  if (isa() == Isa::kX86V3)
    CHECK(runner.layer().implementations().backward_data != "Poseidon product");
  check_gradients(layer, random_inputs(runner, layer, 1), {.step = 3e-2F, .most_elements = 20});
}

TEST_CASE("convolution: oneDNN computes the weight gradients of images in bf16 without AMX") {
  using namespace poseidon::cpu;
  for (const int64_t outputs : {14, 32}) {
    CAPTURE(outputs);
    LayerCase layer{.json = convolution({{"outputs", outputs}, {"kernel", 5}, {"padding", 1}}),
                    .inputs = {{2, 3, 13, 13}}};
    const LayerInputs values = random_inputs(LayerRunner(layer), layer, 1);
    check_bf16(layer, values);
    layer.type = DataType::kBf16;
    const LayerRunner runner(layer);
    if (!has_bf16_products() || has_amx_products()) continue;
    CHECK(runner.layer().implementations().backward_weights.starts_with("oneDNN"));
    CHECK((runner.layer().choice().layout == "channels_last") == (outputs == 14));
  }
}

TEST_CASE("convolution: products compute the passes of a few outputs") {
  const LayerCase layer{.json = convolution({{"outputs", 2}, {"kernel", 5}, {"padding", 2}}),
                        .inputs = {{2, 50, 15, 11}}};
  LayerRunner runner(layer);
  if (has_fused_multiply_add()) {
    CHECK(runner.layer().implementations().forward == "Poseidon product");
    CHECK(runner.layer().implementations().backward_data == "Poseidon product");
  }
  check_gradients(layer, random_inputs(runner, layer, 1), {.step = 3e-2F, .most_elements = 20});
}
