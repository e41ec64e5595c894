#include "layers/deconvolution.h"

#include <doctest/doctest.h>

#include "tests/support/gradient_check.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

Json deconvolution(Json fields) {
  fields["type"] = "deconvolution";
  fields["name"] = "up";
  return fields;
}

struct Geometry {
  Json fields;
  Shape input;
};

/// Whole and partial channel blocks, non-square geometries, groups, dilation, no bias.
const std::vector<Geometry>& geometries() {
  static const std::vector<Geometry> kGeometries{
      {{{"outputs", 3}, {"kernel", 4}, {"stride", 2}, {"padding", 1}}, {2, 16, 4, 4}},
      {{{"outputs", 16}, {"kernel", 3}}, {2, 3, 4, 5}},
      {{{"outputs", 5}, {"kernel", {3, 2}}, {"stride", {1, 2}}, {"padding", {1, 0}}}, {2, 7, 5, 4}},
      {{{"outputs", 16}, {"kernel", {2, 3}}, {"stride", {3, 2}}, {"dilation", {2, 1}}},
       {1, 16, 3, 4}},
      {{{"outputs", 32}, {"kernel", 1}, {"bias", false}}, {2, 16, 3, 3}},
      {{{"outputs", 20}, {"kernel", 1}, {"stride", 2}}, {2, 24, 3, 3}},
      {{{"outputs", 32}, {"kernel", 3}, {"padding", 1}, {"groups", 2}}, {1, 32, 4, 4}},
      {{{"outputs", 6}, {"kernel", 3}, {"stride", 2}, {"groups", 2}}, {2, 8, 3, 3}},
      {{{"outputs", 16}, {"kernel", 4}, {"stride", 2}, {"padding", 1}, {"groups", 16}},
       {1, 16, 4, 4}}};
  return kGeometries;
}

/// Reference: plain loops in double precision.
struct Expected {
  std::vector<double> output, input_gradient, weight_gradient, bias_gradient;
};

Expected compute(const layers::Deconvolution& layer, const Shape& out, const LayerInputs& values) {
  const Shape& in = layer.convolution.output;
  const auto at = [](int64_t index) { return static_cast<size_t>(index); };
  const Values &x = values.inputs[0], &weight = values.parameters[0],
               &g = values.output_gradients[0];
  Expected e{std::vector<double>(at(out.count())), std::vector<double>(x.size()),
             std::vector<double>(weight.size()),
             std::vector<double>(layer.bias ? at(layer.outputs) : 0)};
  const int64_t outputs = layer.outputs / layer.groups, inputs = in.channels() / layer.groups;
  for (int64_t n = 0; n < in.samples(); ++n)
    for (int64_t c = 0; c < in.channels(); ++c)
      for (int64_t cell = 0; cell < in.area(); ++cell)
        for (int64_t k = 0; k < outputs; ++k)
          for (int64_t tap = 0; tap < layer.kernel[0] * layer.kernel[1]; ++tap) {
            const int64_t y = cell / in.width() * layer.stride[0] - layer.padding.before[0] +
                              tap / layer.kernel[1] * layer.dilation[0];
            const int64_t z = cell % in.width() * layer.stride[1] - layer.padding.before[1] +
                              tap % layer.kernel[1] * layer.dilation[1];
            if (y < 0 || y >= out.height() || z < 0 || z >= out.width()) continue;
            const int64_t channel = c / inputs * outputs + k;
            const size_t to =
                at(((n * out.channels() + channel) * out.height() + y) * out.width() + z);
            const size_t from = at((n * in.channels() + c) * in.area() + cell);
            const size_t w = at((c * outputs + k) * layer.kernel[0] * layer.kernel[1] + tap);
            e.output[to] += static_cast<double>(x[from]) * static_cast<double>(weight[w]);
            e.input_gradient[from] += static_cast<double>(g[to]) * static_cast<double>(weight[w]);
            e.weight_gradient[w] += static_cast<double>(g[to]) * static_cast<double>(x[from]);
          }
  for (size_t i = 0; i < e.output.size() && layer.bias; ++i) {
    const size_t channel = i / at(out.area()) % at(layer.outputs);
    e.output[i] += static_cast<double>(values.parameters[1][channel]);
    e.bias_gradient[channel] += static_cast<double>(g[i]);
  }
  return e;
}

Values as_floats(const std::vector<double>& values) { return {values.begin(), values.end()}; }

}  // namespace

TEST_CASE("deconvolution: gradients") {
  for (const Geometry& geometry : geometries()) {
    CAPTURE(geometry.fields.dump());
    check_gradients_everywhere({.json = deconvolution(geometry.fields), .inputs = {geometry.input}},
                               {.step = 3e-2F, .most_elements = 12});
  }
}

TEST_CASE("deconvolution: results match the definition in every layout") {
  for (const Geometry& geometry : geometries()) {
    CAPTURE(geometry.fields.dump());
    LayerCase layer{.json = deconvolution(geometry.fields), .inputs = {geometry.input}};
    Shape output;
    const auto definition = define(layer.json, layer.inputs, &output);
    const LayerInputs values = random_inputs(LayerRunner(layer), layer, 1);
    const Expected expected =
        compute(static_cast<const layers::Deconvolution&>(*definition), output, values);
    for (const Layout layout : {Layout::kPlain, Layout::kChannelsLast, Layout::kBlocked16}) {
      layer.layout = layout;
      const LayerResults got = LayerRunner(layer).run(values);
      check_close(got.output, as_floats(expected.output), 2e-6, "output");
      check_close(got.input_gradients[0], as_floats(expected.input_gradient), 2e-6, "input");
      check_close(got.parameter_gradients[0], as_floats(expected.weight_gradient), 2e-6, "weight");
      if (got.parameter_gradients.size() > 1)
        check_close(got.parameter_gradients[1], as_floats(expected.bias_gradient), 2e-6, "bias");
      layer.training = false;
      layer.step.phase = layers::Phase::kTest;
      check_close(LayerRunner(layer).forward(values), got.output, 2e-6, "output in testing");
      layer.training = true;
      layer.step.phase = layers::Phase::kTrain;
    }
  }
}

TEST_CASE("deconvolution: the bias gradient has equal bits for any thread count") {
  LayerCase layer{.json = deconvolution({{"outputs", 40}, {"kernel", 2}, {"stride", 2}}),
                  .inputs = {{3, 16, 9, 7}},
                  .layout = Layout::kBlocked16};
  const LayerInputs values = random_inputs(LayerRunner(layer), layer, 1);
  const LayerResults one = LayerRunner(layer).run(values);
  layer.threads = 3;
  CHECK(LayerRunner(layer).run(values).parameter_gradients[1] == one.parameter_gradients[1]);
}

TEST_CASE("deconvolution: the input gradient can be skipped") {
  LayerCase layer{.json = deconvolution({{"outputs", 16}, {"kernel", 3}}),
                  .inputs = {{2, 3, 5, 5}},
                  .input_needs_gradient = {false}};
  check_gradients(layer, random_inputs(LayerRunner(layer), layer, 2), {.step = 3e-2F});
}

TEST_CASE("deconvolution: output and weight shapes follow from the geometry") {
  const auto shapes_of = [](Json fields, Shape input) {
    Shape output;
    const auto definition = define(deconvolution(std::move(fields)), {input}, &output);
    return std::pair{output, definition->parameters()[0].shape};
  };
  CHECK(shapes_of({{"outputs", 21}, {"kernel", 64}, {"stride", 32}}, {1, 21, 7, 7}) ==
        std::pair{Shape{1, 21, 256, 256}, Shape{21, 21, 64, 64}});
  CHECK(shapes_of({{"outputs", 6}, {"kernel", {3, 2}}, {"padding", 1}, {"groups", 2}},
                  {2, 8, 4, 5}) == std::pair{Shape{2, 6, 4, 4}, Shape{8, 3, 3, 2}});
}

TEST_CASE("deconvolution: invalid geometry is refused") {
  const auto refuse = [](Json fields, Shape input) {
    define(deconvolution(std::move(fields)), {input});
  };
  CHECK_THROWS_WITH(refuse({{"outputs", 4}, {"kernel", 3}}, {2, 10}),
                    "[deconvolution 'up'] expected an input with height and width, got 2x10");
  CHECK_THROWS_WITH(refuse({{"outputs", 4}, {"kernel", 3}, {"groups", 2}}, {1, 3, 5, 5}),
                    "[deconvolution 'up'] input has 3 channels, not a multiple of \"groups\": 2");
  CHECK_THROWS_WITH(refuse({{"outputs", 5}, {"kernel", 3}, {"groups", 2}}, {1, 4, 5, 5}),
                    "[deconvolution 'up'] \"outputs\": 5 is not a multiple of \"groups\": 2");
  CHECK_THROWS_WITH(refuse({{"outputs", 4}, {"kernel", 3}, {"padding", {0, 2}}}, {1, 4, 5, 2}),
                    "[deconvolution 'up'] the output has 4 columns, but \"padding\" "
                    "removes 4");
}
