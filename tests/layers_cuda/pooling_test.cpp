#include <cmath>
#include <limits>

#include "tests/layers_cuda/compare_with_cpu.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

LayerCase pooling_case(Json fields, const char* method, Shape input) {
  fields["type"] = "pooling";
  fields["method"] = method;
  return {.json = fields, .inputs = {input}};
}

/// Checks windows for every kind of kernel, with channel counts of every kind.
void check_pooling(const Json& fields, int64_t height, int64_t width,
                   const std::vector<int64_t>& rows = {3, 4, 8, 72}) {
  CAPTURE(fields.dump());
  for (const int64_t channels : rows) {
    CAPTURE(channels);
    const Shape input{2, channels, height, width};
    check_each_type(pooling_case(fields, "max", input), 1, 1e-6, 1e-2);
    check_each_type(pooling_case(fields, "average", input), 2, 1e-5, 1e-2);
    check_each_type(pooling_case(fields, "stochastic", input), 1, 1e-6, 1e-2);
  }
}

}  // namespace

TEST_CASE("pooling on GPUs: one thread per window matches the CPU") {
  check_pooling({{"kernel", 3}, {"stride", 2}, {"padding", 1}}, 11, 12);
  check_pooling({{"kernel", {2, 5}}, {"stride", {3, 1}}, {"padding", {0, 2}}}, 9, 6);
  check_pooling({{"kernel", 2}, {"stride", 3}, {"rounding", "floor"}}, 7, 8);
}

TEST_CASE("pooling on GPUs: several threads per window match the CPU") {
  check_pooling({{"global", true}}, 7, 7, {3, 72});
  check_pooling({{"kernel", 6}, {"stride", 4}, {"padding", 3}}, 11, 9, {4, 8});
}

TEST_CASE("pooling on GPUs: windows of more than 256 cells match the CPU") {
  check_pooling({{"kernel", 17}, {"stride", 2}}, 18, 20, {3, 8});
  check_pooling({{"kernel", {16, 16}}}, 17, 16, {4, 24});
}

TEST_CASE("pooling on GPUs: adaptive windows match the CPU") {
  for (const int64_t channels : {3, 4, 8, 72}) {
    CAPTURE(channels);
    check_each_type(pooling_case({{"windows", 4}}, "average", {2, channels, 14, 14}), 2, 1e-5,
                    1e-2);
    check_each_type(pooling_case({{"windows", {3, 1}}}, "average", {2, channels, 7, 5}), 1, 1e-5,
                    1e-2);
  }
}

TEST_CASE("pooling on GPUs: the first of equal maxima wins, and NaN wins only as first cell") {
  for (const Json& fields : {Json{{"kernel", 3}, {"stride", 2}, {"padding", 1}},
                             Json{{"kernel", 8}, {"stride", 2}, {"padding", 2}}})
    for (const int64_t channels : {3, 8}) {
      LayerCase layer = pooling_case(fields, "max", {1, channels, 10, 10});
      LayerInputs values = random_inputs(LayerRunner(layer), layer, 1);
      for (float& value : values.inputs[0]) value = std::round(value);
      check_same_as_cpu(layer, values, 1e-6);
      for (size_t i = 0; i < values.inputs[0].size(); i += 7)
        values.inputs[0][i] = -std::numeric_limits<float>::infinity();
      for (size_t i = 40; i < values.inputs[0].size(); i += 31) values.inputs[0][i] = std::nanf("");
      LayerCase on_cpu = layer;
      on_cpu.backend = make_cpu_backend;
      const LayerResults got = LayerRunner(layer).run(values);
      const LayerResults expected = LayerRunner(on_cpu).run(values);
      for (size_t i = 0; i < got.output.size(); ++i)
        CHECK((got.output[i] == expected.output[i] ||
               (std::isnan(got.output[i]) && std::isnan(expected.output[i]))));
    }
}

TEST_CASE("pooling on GPUs: a forward-only layer needs no workspace") {
  LayerCase layer = pooling_case({{"kernel", 3}, {"stride", 2}}, "max", {2, 8, 6, 6});
  CHECK(LayerRunner(layer).needs().workspace_bytes == 2 * 8 * 3 * 3);
  layer.training = false;
  CHECK(LayerRunner(layer).needs().workspace_bytes == 0);
  LayerCase trained = layer;
  trained.training = true;
  const LayerInputs values = random_inputs(LayerRunner(layer), layer, 1);
  CHECK(LayerRunner(layer).forward(values) == LayerRunner(trained).forward(values));
}

TEST_CASE("pooling on GPUs: training refuses windows of more than 65535 cells") {
  Json fields{{"name", "pool"}, {"kernel", 256}};
  CHECK_THROWS_WITH(LayerRunner(pooling_case(fields, "max", {1, 1, 256, 256})),
                    "[pooling 'pool'] training supports windows of at most 65535 cells");
}
