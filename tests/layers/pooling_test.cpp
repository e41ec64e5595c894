#include "layers/pooling.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tests/support/gradient_check.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

Json pooling(Json fields) {
  fields["type"] = "pooling";
  fields["name"] = "pool";
  return fields;
}

void check(const Json& fields, Shape input) {
  for (const char* method : {"max", "average", "stochastic"}) {
    CAPTURE(fields.dump());
    CAPTURE(std::string(method));
    Json json = pooling(fields);
    json["method"] = method;
    check_gradients_everywhere({.json = json, .inputs = {input}}, {.step = 4e-3F,
                                                                   .relative = 4e-3,
                                                                   .most_elements = 16,
                                                                   .kinks = method[0] != 'a',
                                                                   .in_testing = method[0] != 's'});
  }
}

Shape output_of(Json fields, Shape input) {
  auto definition = define(pooling(std::move(fields)), {input});
  return static_cast<const layers::Pooling&>(*definition).output;
}

Values run(Json fields, Shape input, const Values& values) {
  LayerRunner runner({.json = pooling(std::move(fields)), .inputs = {input}});
  return runner.forward({.inputs = {values}});
}

/// An output of stochastic pooling, and the cell that it was taken from.
struct Taken {
  double value = 0;
  size_t cell = 0;
};

/// Reference: plain loops in double precision, by the definition in layers/pooling.h.
std::vector<Taken> take_by_definition(const layers::Pooling& pooling,
                                      const layers::StepParameters& numbers, const Values& values,
                                      bool training) {
  const Shape &in = pooling.input, &out = pooling.output;
  const uint64_t key = layers::random_key(pooling.name);
  std::vector<Taken> taken;
  for (int64_t n = 0; n < out.samples(); ++n)
    for (int64_t c = 0; c < out.channels(); ++c)
      for (int64_t i = 0; i < out.height(); ++i)
        for (int64_t j = 0; j < out.width(); ++j) {
          std::vector<size_t> cells;
          double sum = 0, squares = 0, so_far = 0;
          for (int64_t r = 0; r < pooling.kernel[0]; ++r)
            for (int64_t s = 0; s < pooling.kernel[1]; ++s) {
              const int64_t y = i * pooling.stride[0] - pooling.padding.before[0] + r;
              const int64_t x = j * pooling.stride[1] - pooling.padding.before[1] + s;
              if (y < 0 || y >= in.height() || x < 0 || x >= in.width()) continue;
              cells.push_back(static_cast<size_t>(
                  ((n * in.channels() + c) * in.height() + y) * in.width() + x));
              const double cell = values[cells.back()];
              sum += cell;
              squares += cell * cell;
            }
          if (!training) {
            taken.push_back({sum > 0 ? squares / sum : 0, cells[0]});
            continue;
          }
          const auto element = static_cast<uint64_t>((i * out.width() + j) * out.channels() + c);
          const PhiloxBlock words = layers::Pooling::stream_of(numbers, key, n).at(element / 4);
          const double wanted = sum * (1 - (words[element % 4] >> 8) / 16777216.0);
          size_t k = 0;
          while ((so_far += values[cells[k]]) < wanted && k + 1 < cells.size()) ++k;
          taken.push_back({values[cells[k]], cells[k]});
        }
  return taken;
}

/// Integers, so that many are equal and sums are exact.
Values whole_values(int64_t count, uint32_t seed) {
  Values values = random_values(count, seed, -4, 4);
  for (float& value : values) value = std::round(value);
  return values;
}

/// A pooling with random geometry and a random input.
LayerCase random_case(uint64_t seed, const char* method) {
  RandomStream random(seed, RandomPurpose::kGeneration, 0, 0);
  const auto draw = [&](int64_t least, int64_t most) {
    return least + random.next_below(static_cast<uint32_t>(most - least + 1));
  };
  std::array<int64_t, 2> size{}, kernel{}, stride{};
  std::array<int64_t, 4> padding{};
  for (size_t i = 0; i < 2; ++i) {
    size[i] = draw(1, 40);
    kernel[i] = draw(1, std::min<int64_t>(size[i], draw(0, 1) == 0 ? 3 : 12));
    stride[i] = draw(1, 4);
    padding[2 * i] = draw(0, kernel[i] / 2);
    padding[2 * i + 1] = draw(0, kernel[i] - 1);
  }
  const Json fields = pooling({{"method", method},
                               {"kernel", kernel},
                               {"stride", stride},
                               {"padding", padding},
                               {"rounding", draw(0, 1) == 0 ? "ceil" : "floor"}});
  return {.json = fields, .inputs = {Shape{draw(1, 3), draw(1, 40), size[0], size[1]}}};
}

/// Reference: maxima or means by plain loops, and the input's gradient. The first of equal maxima
/// is taken.
LayerResults results_by_definition(const LayerCase& layer, const LayerInputs& values) {
  const auto definition = define(layer.json, layer.inputs);
  const auto& p = static_cast<const layers::Pooling&>(*definition);
  LayerResults expected{.output = Values(static_cast<size_t>(p.output.count())),
                        .input_gradients = {Values(static_cast<size_t>(p.input.count()))},
                        .parameter_gradients = {},
                        .statistics = {}};
  Values& spread = expected.input_gradients[0];
  for (int64_t o = 0; o < p.output.count(); ++o) {
    const int64_t plane = o / p.output.area(), first_y = o / p.output.width() % p.output.height(),
                  first_x = o % p.output.width();
    const int64_t y = first_y * p.stride[0] - p.padding.before[0],
                  x = first_x * p.stride[1] - p.padding.before[1];
    const int64_t rows = std::min(y + p.kernel[0], p.input.height() + p.padding.after[0]) - y;
    const int64_t columns = std::min(x + p.kernel[1], p.input.width() + p.padding.after[1]) - x;
    std::vector<size_t> cells;
    for (int64_t r = std::max<int64_t>(y, 0); r < std::min(y + rows, p.input.height()); ++r)
      for (int64_t c = std::max<int64_t>(x, 0); c < std::min(x + columns, p.input.width()); ++c)
        cells.push_back(static_cast<size_t>(plane * p.input.area() + r * p.input.width() + c));
    const float gradient = values.output_gradients[0][static_cast<size_t>(o)];
    float& output = expected.output[static_cast<size_t>(o)];
    if (p.method == layers::PoolingMethod::kMax) {
      size_t best = cells[0];
      for (const size_t cell : cells)
        if (values.inputs[0][cell] > values.inputs[0][best]) best = cell;
      output = values.inputs[0][best];
      spread[best] += gradient;
      continue;
    }
    for (const size_t cell : cells) {
      output += values.inputs[0][cell] / static_cast<float>(rows * columns);
      spread[cell] += gradient / static_cast<float>(rows * columns);
    }
  }
  return expected;
}

/// Nonnegative values, some of them zero, like the output of a relu.
Values positive_values(const Shape& shape) {
  Values values = random_values(shape.count(), 5, -0.3F, 1);
  for (float& value : values) value = std::max(value, 0.0F);
  return values;
}

const std::vector<std::pair<Json, Shape>>& stochastic_cases() {
  static const std::vector<std::pair<Json, Shape>> kCases{
      {{{"kernel", 2}, {"stride", 2}}, {3, 5, 4, 6}},
      {{{"kernel", 3}, {"stride", 1}}, {2, 16, 5, 5}},
      {{{"kernel", {3, 2}}, {"stride", {2, 1}}, {"padding", {1, 0}}}, {2, 21, 6, 4}},
      {{{"kernel", 3}, {"stride", 2}, {"padding", 1}}, {2, 24, 6, 6}},
      {{{"kernel", 17}, {"stride", 2}}, {2, 8, 18, 20}},
      {{{"global", true}}, {2, 37, 7, 7}}};
  return kCases;
}

LayerCase stochastic_case(Json fields, Shape input) {
  fields["method"] = "stochastic";
  LayerCase layer{.json = pooling(std::move(fields)), .inputs = {input}};
  layer.numbers.first_sample = 56;
  return layer;
}

}  // namespace

TEST_CASE("pooling: gradients") {
  check({{"kernel", 2}, {"stride", 2}}, {2, 5, 4, 6});
  check({{"kernel", 3}, {"stride", 1}}, {1, 16, 5, 5});
  check({{"kernel", {3, 2}}, {"stride", {2, 1}}}, {1, 21, 5, 4});
}

TEST_CASE("pooling: gradients with padding") {
  check({{"kernel", 3}, {"stride", 2}, {"padding", 1}}, {1, 5, 6, 5});
  check({{"kernel", {3, 2}}, {"stride", 1}, {"padding", {1, 0}}, {"rounding", "floor"}},
        {1, 16, 4, 4});
}

TEST_CASE("pooling: gradients with windows that exceed the input") {
  check({{"kernel", 3}, {"stride", 2}}, {1, 5, 6, 6});
  check({{"kernel", 3}, {"stride", 2}, {"padding", 1}}, {1, 16, 6, 6});
  check({{"kernel", 3}, {"stride", 2}, {"rounding", "floor"}}, {1, 16, 6, 6});
}

TEST_CASE("pooling: gradients of global pooling") { check({{"global", true}}, {2, 21, 3, 4}); }

TEST_CASE("pooling: gradients of adaptive windows") {
  for (const auto& [windows, shape] : {std::pair{Json(4), Shape{1, 5, 14, 14}},
                                       {Json{3, 2}, Shape{2, 16, 7, 5}},
                                       {Json{1, 4}, Shape{1, 21, 3, 4}}})
    check_gradients_everywhere(
        {.json = pooling({{"method", "average"}, {"windows", windows}}), .inputs = {shape}},
        {.step = 4e-3F, .relative = 4e-3});
}

TEST_CASE("pooling: adaptive windows cover the expected cells") {
  Values columns(10);
  for (size_t i = 0; i < columns.size(); ++i) columns[i] = static_cast<float>(i);
  const auto means = [&](int64_t windows, int64_t cells) {
    return run({{"method", "average"}, {"windows", {1, windows}}}, {1, 1, 1, cells},
               Values(columns.begin(), columns.begin() + cells));
  };
  CHECK(means(4, 10) == Values{1, 3, 6, 8});  // 0 to 2, 2 to 4, 5 to 7, 7 to 9
  CHECK(means(3, 9) == Values{1, 4, 7});
  CHECK(means(5, 5) == Values{0, 1, 2, 3, 4});
  CHECK(output_of({{"method", "average"}, {"windows", {3, 2}}}, {1, 2, 7, 5}) == Shape{1, 2, 3, 2});
}

TEST_CASE("pooling: random geometries match plain loops in every layout and data type") {
#ifdef __SANITIZE_ADDRESS__
  constexpr uint64_t kSeeds = 8;  // the emulated GPU is slow there
#else
  constexpr uint64_t kSeeds = 40;
#endif
  for (uint64_t seed = 1; seed <= kSeeds; ++seed)
    for (const std::string method : {"max", "average"}) {
      LayerCase layer = random_case(seed, method.c_str());
      const Shape& input = layer.inputs[0];
      CAPTURE(layer.json.dump());
      CAPTURE(input.text());
      const Shape output = output_of(layer.json, input);
      const LayerInputs values{.inputs = {whole_values(input.count(), 1)},
                               .output_gradients = {whole_values(output.count(), 2)}};
      const LayerResults expected = results_by_definition(layer, values);
      for (const DataType type : {DataType::kFp32, DataType::kBf16})
        for (const Layout layout :
             {Layout::kPlain, Layout::kChannelsLast, Layout::kBlocked8, Layout::kBlocked16}) {
          layer.type = type;
          layer.layout = layout;
          std::vector<LayerResults> got;
          for (const int threads : {1, 3}) {
            layer.threads = threads;
            got.push_back(LayerRunner(layer).run(values));
          }
          CHECK(got[0].output == got[1].output);
          CHECK(got[0].input_gradients == got[1].input_gradients);
          const double tolerance = method == "max" ? 0 : type == DataType::kFp32 ? 1e-6 : 1e-2;
          check_close(got[0].output, expected.output, tolerance, "output");
          check_close(got[0].input_gradients[0], expected.input_gradients[0], tolerance,
                      "gradient");
        }
    }
}

TEST_CASE("pooling: output extents with both rounding modes") {
  CHECK(output_of({{"kernel", 3}, {"stride", 2}}, {1, 2, 32, 32}) == Shape{1, 2, 16, 16});
  CHECK(output_of({{"kernel", 3}, {"stride", 2}, {"rounding", "floor"}}, {1, 2, 32, 32}) ==
        Shape{1, 2, 15, 15});
  // The last window must start inside the input or its left padding.
  CHECK(output_of({{"kernel", 2}, {"stride", 2}, {"padding", 1}}, {1, 2, 3, 3}) ==
        Shape{1, 2, 2, 2});
  CHECK(output_of({{"kernel", 2}, {"stride", 3}}, {1, 1, 3, 3}) == Shape{1, 1, 1, 1});
  CHECK(output_of({{"global", true}}, {1, 2, 7, 5}) == Shape{1, 2, 1, 1});
}

TEST_CASE("pooling: the mean divides by the window inside the padded input") {
  const Values ones(9, 1);
  // A 3x3 image with padding 1: the corner window contains 4 of 9 image cells.
  const Values padded = run({{"method", "average"}, {"kernel", 3}, {"stride", 2}, {"padding", 1}},
                            {1, 1, 3, 3}, ones);
  check_close(padded, {4.0F / 9, 4.0F / 9, 4.0F / 9, 4.0F / 9}, 1e-6, "padding counts");
  // 4x4, kernel 3, stride 2: the last windows exceed the input and divide by the number of cells
  // inside.
  const Values hanging =
      run({{"method", "average"}, {"kernel", 3}, {"stride", 2}}, {1, 1, 4, 4}, Values(16, 1));
  check_close(hanging, {1, 1, 1, 1}, 1e-6, "overhang does not count");
}

TEST_CASE("pooling: padding is never the maximum") {
  CHECK(run({{"kernel", 3}, {"stride", 2}, {"padding", 1}}, {1, 1, 3, 3}, Values(9, -5)) ==
        Values(4, -5));
}

TEST_CASE("pooling: stochastic pooling selects the cells of the definition in every layout") {
  for (const auto& each : stochastic_cases()) {
    const Json& fields = each.first;
    const Shape& shape = each.second;
    CAPTURE(fields.dump());
    LayerCase layer = stochastic_case(fields, shape);
    const auto definition = define(layer.json, {shape});
    const Values input = positive_values(shape);
    const std::vector<Taken> taken = take_by_definition(
        static_cast<const layers::Pooling&>(*definition), layer.numbers, input, true);
    const Values gradient = random_values(static_cast<int64_t>(taken.size()), 6);
    Values output;
    std::vector<double> sums(input.size());
    for (size_t i = 0; i < taken.size(); ++i) {
      output.push_back(static_cast<float>(taken[i].value));
      sums[taken[i].cell] += static_cast<double>(gradient[i]);
    }
    for (const Layout layout :
         {Layout::kPlain, Layout::kChannelsLast, Layout::kBlocked8, Layout::kBlocked16})
      for (const int threads : {1, 2}) {
        layer.layout = layout;
        layer.threads = threads;
        const LayerResults got =
            LayerRunner(layer).run({.inputs = {input}, .output_gradients = {gradient}});
        CHECK(got.output == output);
        check_close(got.input_gradients[0], Values(sums.begin(), sums.end()), 1e-6, "gradient");
      }
  }
}

TEST_CASE("pooling: stochastic pooling computes the value-weighted mean in testing") {
  for (const auto& each : stochastic_cases()) {
    const Json& fields = each.first;
    const Shape& shape = each.second;
    CAPTURE(fields.dump());
    LayerCase layer = stochastic_case(fields, shape);
    layer.step.phase = layers::Phase::kTest;
    const auto definition = define(layer.json, {shape});
    const Values input = positive_values(shape);
    Values expected;
    for (const Taken& taken : take_by_definition(static_cast<const layers::Pooling&>(*definition),
                                                 layer.numbers, input, false))
      expected.push_back(static_cast<float>(taken.value));
    for (const bool training : {true, false})
      for (const Layout layout :
           {Layout::kPlain, Layout::kChannelsLast, Layout::kBlocked8, Layout::kBlocked16}) {
        layer.layout = layout;
        layer.training = training;
        check_close(LayerRunner(layer).forward({.inputs = {input}}), expected, 1e-6, "mean");
      }
  }
}

TEST_CASE("pooling: stochastic pooling selects each value with probability value / sum") {
  const Shape shape{4000, 1, 2, 2};
  Values input;
  for (int64_t n = 0; n < shape.samples(); ++n) input.insert(input.end(), {1, 0, 2, 5});
  LayerCase layer = stochastic_case({{"kernel", 2}}, shape);
  const Values first = LayerRunner(layer).forward({.inputs = {input}});
  for (const auto& [value, share] :
       {std::pair{0.0F, 0.0}, {1.0F, 1 / 8.0}, {2.0F, 1 / 4.0}, {5.0F, 5 / 8.0}})
    CHECK(static_cast<double>(std::count(first.begin(), first.end(), value)) / 4000 ==
          doctest::Approx(share).epsilon(0.1));
  // Another step, name, seed or position in the global batch selects other cells. The same ones
  // select the same cells.
  CHECK(LayerRunner(layer).forward({.inputs = {input}}) == first);
  LayerCase other = layer;
  other.numbers.step += 1;
  CHECK(LayerRunner(other).forward({.inputs = {input}}) != first);
  other = layer;
  other.json["name"] = "pool2";
  CHECK(LayerRunner(other).forward({.inputs = {input}}) != first);
  other = layer;
  other.numbers.seed += 1;
  CHECK(LayerRunner(other).forward({.inputs = {input}}) != first);
  other = layer;
  other.numbers.first_sample += 1;
  const Values later = LayerRunner(other).forward({.inputs = {input}});
  CHECK(std::equal(later.begin(), later.end() - 1, first.begin() + 1));
}

TEST_CASE("pooling: stochastic pooling of negative values, zero sums and NaN is defined") {
  LayerCase layer = stochastic_case({{"kernel", 2}}, {1, 1, 2, 2});
  const auto take = [&](const Values& values, layers::Phase phase) {
    layer.step.phase = phase;
    return LayerRunner(layer).forward({.inputs = {values}});
  };
  using layers::Phase;
  CHECK(take({0, 0, 0, 0}, Phase::kTrain) == Values{0});
  CHECK(take({0, 0, 0, 0}, Phase::kTest) == Values{0});
  // The window's sum is negative: either the first cell reaches the threshold at once, or no cell
  // does.
  CHECK(take({3, -8, 0, 1}, Phase::kTrain) == Values{3});
  CHECK(take({-8, -1, -1, -2}, Phase::kTest) == Values{0});
  CHECK(take({-1, 3, 0, 0}, Phase::kTest) == Values{5});
  CHECK(take({std::nanf(""), 1, 2, 7}, Phase::kTrain) == Values{7});
}

TEST_CASE("pooling: invalid geometry is refused") {
  const auto refuse = [](Json fields, Shape input) { define(pooling(std::move(fields)), {input}); };
  CHECK_THROWS_WITH(refuse({{"kernel", 2}}, {2, 10}),
                    "[pooling 'pool'] expected an input with height and width, got 2x10");
  CHECK_THROWS_WITH(
      refuse(Json::object(), {1, 1, 4, 4}),
      "[pooling 'pool'] expected \"kernel\" of at least 1, \"global\": true, or \"windows\"");
  CHECK_THROWS_WITH(
      refuse({{"kernel", 2}, {"global", true}}, {1, 1, 4, 4}),
      "[pooling 'pool'] \"global\" pools the whole input: remove \"kernel\" and \"padding\"");
  CHECK_THROWS_WITH(
      refuse({{"kernel", 2}, {"padding", 2}}, {1, 1, 4, 4}),
      "[pooling 'pool'] \"padding\" must be smaller than the kernel, got 2 with kernel 2");
  CHECK_THROWS_WITH(
      refuse({{"method", "average"}, {"windows", 2}, {"stride", 2}}, {1, 1, 4, 4}),
      "[pooling 'pool'] \"windows\" covers the whole input: remove \"kernel\", \"stride\", "
      "\"padding\" and \"global\"");
  CHECK_THROWS_WITH(refuse({{"windows", 2}}, {1, 1, 4, 4}),
                    "[pooling 'pool'] \"windows\" requires \"method\": \"average\"");
  CHECK_THROWS_WITH(
      refuse({{"method", "average"}, {"windows", {2, 5}}}, {1, 1, 4, 4}),
      "[pooling 'pool'] expected 1 to 4 \"windows\" over the columns of the input, got 5");
  CHECK_THROWS_WITH(refuse({{"kernel", 5}}, {1, 1, 4, 4}),
                    "[pooling 'pool'] kernel spans 5 but the padded input has only 4 rows");
}
