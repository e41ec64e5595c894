// Convolutions, their transposes and linear layers with small and odd geometries, compared with
// plain loops in double precision. LayerRunner fills all memory with NaN before each call, so an
// unwritten element fails the test.

#include <doctest/doctest.h>

#include <cmath>

#include "core/bf16.h"
#include "core/philox.h"
#include "layers/convolution.h"
#include "layers/deconvolution.h"
#include "tests/support/gradient_check.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

/// The geometry of a convolution, or of a deconvolution with the same keys.
struct Geometry {
  int64_t samples = 1, channels = 1, outputs = 1, groups = 1;
  std::array<int64_t, 2> size{1, 1}, kernel{1, 1}, stride{1, 1}, padding{0, 0}, dilation{1, 1};
  std::optional<std::array<int64_t, 2>> padding_after =
      std::nullopt;  ///< if it differs from `padding`
  bool bias = true;

  std::array<int64_t, 2> after() const { return padding_after.value_or(padding); }
  Json json(const char* type) const {
    const Json sides{padding[0], after()[0], padding[1], after()[1]};
    return {{"name", "layer"},  {"type", type},         {"outputs", outputs},
            {"groups", groups}, {"kernel", kernel},     {"stride", stride},
            {"padding", sides}, {"dilation", dilation}, {"bias", bias}};
  }
  Shape input() const { return {samples, channels, size[0], size[1]}; }
};

/// Sums in double precision, and the number of products in each.
struct Sums {
  explicit Sums(int64_t count)
      : sums(static_cast<size_t>(count)), products(static_cast<size_t>(count)) {}
  void add(int64_t i, double product) {
    sums[static_cast<size_t>(i)] += product;
    ++products[static_cast<size_t>(i)];
  }
  std::vector<double> sums;
  std::vector<int64_t> products;
};

/// Calls each(input element, weight element, output element) for each product of a convolution.
template <class Each>
void for_each_product(const layers::Convolution& c, const Each& each) {
  const Shape &in = c.input, &out = c.output;
  const int64_t inputs = in.channels() / c.groups, outputs = c.outputs / c.groups;
  const Shape weight{c.outputs, inputs, c.kernel[0], c.kernel[1]};
  for (int64_t n = 0; n < in.samples(); ++n)
    for (int64_t o = 0; o < c.outputs; ++o)
      for (int64_t i = 0; i < inputs; ++i)
        for (int64_t y = 0; y < out[2]; ++y)
          for (int64_t x = 0; x < out[3]; ++x)
            for (int64_t r = 0; r < c.kernel[0]; ++r)
              for (int64_t s = 0; s < c.kernel[1]; ++s) {
                const int64_t row = y * c.stride[0] + r * c.dilation[0] - c.padding.before[0];
                const int64_t column = x * c.stride[1] + s * c.dilation[1] - c.padding.before[1];
                if (row < 0 || row >= in[2] || column < 0 || column >= in[3]) continue;
                const int64_t channel = o / outputs * inputs + i;
                each(((n * in[1] + channel) * in[2] + row) * in[3] + column,
                     ((o * inputs + i) * c.kernel[0] + r) * c.kernel[1] + s,
                     ((n * out[1] + o) * out[2] + y) * out[3] + x);
              }
}

/// Reference results of all passes.
struct Expected {
  Sums output, input_gradient, weight_gradient, bias_gradient;
};

Expected expected_of(const layers::Convolution& c, bool transposed, int64_t biases,
                     const LayerInputs& values) {
  const Shape& from = transposed ? c.output : c.input;
  const Shape& to = transposed ? c.input : c.output;
  Expected e{Sums(to.count()), Sums(from.count()),
             Sums(c.outputs * c.input.channels() / c.groups * c.kernel[0] * c.kernel[1]),
             Sums(biases)};
  const auto at = [](const Values& all, int64_t i) {
    return static_cast<double>(all[static_cast<size_t>(i)]);
  };
  const Values &in = values.inputs[0], &weight = values.parameters[0],
               &gradient = values.output_gradients[0];
  for_each_product(c, [&](int64_t x, int64_t w, int64_t y) {
    const int64_t source = transposed ? y : x, target = transposed ? x : y;
    e.output.add(target, at(in, source) * at(weight, w));
    e.input_gradient.add(source, at(gradient, target) * at(weight, w));
    e.weight_gradient.add(w, at(gradient, target) * at(in, source));
  });
  for (int64_t i = 0; biases > 0 && i < to.count(); ++i) {
    const int64_t channel = i / to.area() % to.channels();
    e.output.add(i, at(values.parameters[1], channel));
    e.bias_gradient.add(channel, at(gradient, i));
  }
  return e;
}

/// Tolerance for the results of a pass.
struct Tolerance {
  double relative = 1e-5;   ///< relative to the largest sum, at least 1
  bool exact_zeros = true;  ///< a sum without products must be exactly zero
};

void check_sums(const Values& got, const Sums& expected, Tolerance tolerance, const char* what) {
  REQUIRE(got.size() == expected.sums.size());
  double scale = 1;
  for (const double sum : expected.sums) scale = std::max(scale, std::abs(sum));
  for (size_t i = 0; i < got.size(); ++i) {
    const bool is_zero = tolerance.exact_zeros && expected.products[i] == 0;
    const double difference = std::abs(static_cast<double>(got[i]) - expected.sums[i]);
    if (difference <= (is_zero ? 0 : tolerance.relative * scale)) continue;
    FAIL_CHECK(what << ": element " << i << " of " << got.size() << " is " << got[i]
                    << ", expected " << expected.sums[i]);
    return;
  }
}

LayerInputs rounded_to_bf16(LayerInputs values) {
  for (std::vector<Values>* tensors :
       {&values.inputs, &values.parameters, &values.output_gradients})
    for (Values& tensor : *tensors)
      for (float& value : tensor) value = Bf16(value);
  return values;
}

void check_results(const LayerResults& got, const Expected& expected, Tolerance tolerance) {
  check_sums(got.output, expected.output, tolerance, "output");
  check_sums(got.input_gradients[0], expected.input_gradient, tolerance, "input gradient");
  check_sums(got.parameter_gradients[0], expected.weight_gradient, tolerance, "weight gradient");
  if (got.parameter_gradients.size() > 1)
    check_sums(got.parameter_gradients[1], expected.bias_gradient, tolerance, "bias gradient");
}

/// Runs a layer with each data type of activations, layout and method, with one thread and with
/// three.
void check_every_way(LayerCase layer, const LayerInputs& values, const Expected& expected) {
  for (const DataType type : {DataType::kFp32, DataType::kBf16})
    for (const std::string layout : {"", "channels_last"})
      for (const std::string method : {"direct", "product", "winograd"})
        for (const int threads : {1, 3}) {
          layer.type = type;
          layer.threads = threads;
          layer.choice = {layout, method, method, method};
          if (layer.json["type"] != "convolution" && method == "winograd") continue;
          if (layer.json["type"] == "linear" && !(layout.empty() && method == "direct")) continue;
          if (method == "product" && type == DataType::kBf16) continue;
          LayerRunner runner(layer);
          if (method == "winograd" && runner.layer().choice().forward != method) continue;
          const std::string way = text(type == DataType::kBf16 ? "bf16" : "fp32", ", ", layout, " ",
                                       method, ", ", threads, " threads");
          CAPTURE(way);
          check_results(runner.run(values), expected,
                        {.relative = type == DataType::kBf16 ? 1e-2 : 1e-5,
                         .exact_zeros = method != "winograd"});
        }
}

void check_convolution(const Geometry& geometry, bool transposed = false) {
  LayerCase layer{.json = geometry.json(transposed ? "deconvolution" : "convolution"),
                  .inputs = {geometry.input()}};
  const std::string what = layer.json.dump() + " on " + layer.inputs[0].text();
  CAPTURE(what);
  const LayerRunner runner(layer);
  const LayerInputs values = rounded_to_bf16(random_inputs(runner, layer, 1));
  const auto& convolution =
      transposed ? static_cast<const layers::Deconvolution&>(runner.definition()).convolution
                 : static_cast<const layers::Convolution&>(runner.definition());
  const int64_t biases = geometry.bias ? geometry.outputs : 0;
  check_every_way(layer, values, expected_of(convolution, transposed, biases, values));
}

/// A linear layer is a convolution of images of 1 x 1 pixels.
void check_linear(int64_t samples, int64_t inputs, int64_t outputs, bool bias) {
  const Geometry geometry{.samples = samples, .channels = inputs, .outputs = outputs, .bias = bias};
  LayerCase layer{.json = {{"type", "linear"}, {"outputs", outputs}, {"bias", bias}},
                  .inputs = {{samples, inputs}}};
  const std::string what = layer.json.dump() + " on " + layer.inputs[0].text();
  CAPTURE(what);
  const LayerInputs values = rounded_to_bf16(random_inputs(LayerRunner(layer), layer, 1));
  const auto definition = define(geometry.json("convolution"), {geometry.input()});
  check_every_way(layer, values,
                  expected_of(static_cast<const layers::Convolution&>(*definition), false,
                              bias ? outputs : 0, values));
}

/// Draws random geometries.
class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed, RandomPurpose::kGeneration, 0, 0) {}

  Geometry convolution() {
    while (true) {
      const Geometry g = any();
      if (fits(g, 0) && fits(g, 1)) return g;
    }
  }
  Geometry deconvolution() {
    while (true) {
      const Geometry g = any();
      if (leaves_output(g, 0) && leaves_output(g, 1)) return g;
    }
  }

 private:
  using Pair = std::array<int64_t, 2>;

  static int64_t window(const Geometry& g, size_t axis) {
    return g.dilation[axis] * (g.kernel[axis] - 1) + 1;
  }
  static bool fits(const Geometry& g, size_t axis) {
    return window(g, axis) <= g.size[axis] + g.padding[axis] + g.after()[axis];
  }
  static bool leaves_output(const Geometry& g, size_t axis) {
    return (g.size[axis] - 1) * g.stride[axis] + window(g, axis) >
           g.padding[axis] + g.after()[axis];
  }

  int64_t between(int64_t least, int64_t most) {
    return least + random_.next_below(static_cast<uint32_t>(most - least + 1));
  }
  bool one_in(int64_t many) { return between(1, many) == 1; }
  /// Usually the same value for both axes.
  Pair pair(int64_t least, int64_t most) {
    const int64_t first = between(least, most);
    return {first, one_in(3) ? between(least, most) : first};
  }

  void draw_channels(Geometry& g) {
    const int64_t unit = one_in(2) ? 1 : (one_in(2) ? 8 : 16);
    const int64_t most = unit == 1 ? 17 : 3;
    g.channels = unit * between(1, most);
    g.outputs = unit * between(1, most);
    if (one_in(2)) return;
    g.groups = unit == 1 ? between(2, 17) : (one_in(2) ? 2 : unit);
    g.channels = g.groups * (unit == 1 || g.groups == unit ? between(1, 2) : unit);
    g.outputs = one_in(2) ? g.channels : g.groups * between(1, 3);
  }

  Geometry any() {
    Geometry g;
    g.samples = between(1, 3);
    draw_channels(g);
    g.size = pair(1, one_in(2) ? 3 : 9);
    g.kernel = pair(1, one_in(2) ? 3 : 7);
    if (!one_in(3)) g.stride = pair(1, 4);
    if (one_in(3)) g.dilation = pair(1, 4);
    g.padding = pair(0, one_in(2) ? 3 : 8);
    g.bias = one_in(2);
    if (one_in(3)) g.padding_after = pair(0, 5);
    return g;
  }

  RandomStream random_;
};

/// Geometries of each test case that draws them. The six cases check 402 together, in about eight
/// seconds. Builds with sanitizers are ten times slower.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t kDrawn = 8;
#else
constexpr uint64_t kDrawn = 67;
#endif

void check_drawn_convolutions(uint64_t first) {
  for (uint64_t seed = first; seed < first + kDrawn; ++seed)
    check_convolution(Draw(seed).convolution());
}

void check_drawn_deconvolutions(uint64_t first) {
  for (uint64_t seed = first; seed < first + kDrawn; ++seed)
    check_convolution(Draw(seed).deconvolution(), true);
}

}  // namespace

// The outer taps of these kernels see only padding. oneDNN leaves the gradient of their weights
// uninitialized in bf16 if the stride exceeds the width.
TEST_CASE("small geometries: strides wider than the image") {
  for (const int64_t width : {1, 2})
    for (const int64_t channels : {2, 16})
      check_convolution({.channels = channels,
                         .outputs = 16,
                         .size = {1, width},
                         .kernel = {3, 3},
                         .stride = {width + 1, width + 1},
                         .padding = {1, 1},
                         .bias = false});
}

TEST_CASE("small geometries: strides wider than the image, other kernels") {
  check_convolution({.samples = 3,
                     .channels = 3,
                     .outputs = 17,
                     .size = {3, 2},
                     .kernel = {2, 2},
                     .stride = {3, 4},
                     .padding = {1, 1}});
  check_convolution({.channels = 2,
                     .outputs = 3,
                     .size = {9, 2},
                     .kernel = {5, 5},
                     .stride = {3, 4},
                     .padding = {2, 2}});
  check_convolution({.channels = 5,
                     .outputs = 5,
                     .groups = 5,
                     .kernel = {7, 7},
                     .stride = {2, 2},
                     .padding = {3, 3}});
}

TEST_CASE("small geometries: strides wider than the image, transposed and in groups") {
  const Geometry geometry{.channels = 32,
                          .outputs = 32,
                          .groups = 2,
                          .kernel = {3, 3},
                          .stride = {2, 2},
                          .padding = {1, 1}};
  check_convolution(geometry);
  check_convolution(geometry, true);
  check_convolution({.samples = 2,
                     .channels = 10,
                     .outputs = 11,
                     .size = {2, 2},
                     .kernel = {6, 5},
                     .stride = {2, 2},
                     .padding = {3, 3}},
                    true);
}

TEST_CASE("small geometries: groups that begin within a block of outputs, large outputs") {
  for (const int64_t outputs : {8, 16, 48})
    check_convolution({.samples = 2,
                       .channels = 8,
                       .outputs = outputs,
                       .groups = 2,
                       .size = {13, 12},
                       .kernel = {3, 2},
                       .padding = {1, 1}});
}

TEST_CASE("small geometries: padding that differs by side") {
  const Geometry winograd{.channels = 16,
                          .outputs = 32,
                          .size = {7, 6},
                          .kernel = {3, 3},
                          .padding = {0, 2},
                          .padding_after = std::array<int64_t, 2>{1, 0}};
  check_convolution(winograd);
  check_convolution(winograd, true);
  for (const int64_t groups : {1, 2, 12})
    check_convolution({.samples = 2,
                       .channels = 12,
                       .outputs = 12,
                       .groups = groups,
                       .size = {8, 9},
                       .kernel = {5, 5},
                       .stride = {2, 2},
                       .padding = {1, 2},
                       .padding_after = std::array<int64_t, 2>{2, 1}});
  check_convolution({.channels = 3,
                     .outputs = 16,
                     .size = {9, 9},
                     .kernel = {3, 3},
                     .stride = {2, 2},
                     .padding_after = std::array<int64_t, 2>{1, 1}});
}

// oneDNN reads beyond the input for these geometries.
TEST_CASE("small geometries: windows within the padding of one side") {
  check_convolution({.samples = 2,
                     .channels = 3,
                     .outputs = 6,
                     .size = {5, 5},
                     .kernel = {3, 3},
                     .stride = {2, 2},
                     .padding = {2, 4},
                     .padding_after = std::array<int64_t, 2>{4, 0}},
                    true);
  for (const int64_t channels : {3, 32})
    check_convolution({.samples = 2,
                       .channels = channels,
                       .outputs = 48,
                       .size = {3, 2},
                       .kernel = {1, 1},
                       .stride = {4, 4},
                       .padding_after = std::array<int64_t, 2>{3, 2}});
}

TEST_CASE("small geometries: strided first layers, wider than two vectors") {
  for (const int64_t stride : {2, 3})
    check_convolution({.channels = 3,
                       .outputs = 5,
                       .size = {4, 85},
                       .kernel = {3, 4},
                       .stride = {1, stride},
                       .padding = {1, 2}});
}

TEST_CASE("small geometries: dilations beyond the image") {
  for (const int64_t channels : {3, 16})
    check_convolution({.channels = channels,
                       .outputs = 16,
                       .size = {2, 3},
                       .kernel = {3, 3},
                       .padding = {4, 4},
                       .dilation = {4, 4}});
}

TEST_CASE("small geometries: random convolutions, seeds from 0") { check_drawn_convolutions(0); }
TEST_CASE("small geometries: random convolutions, seeds from 100") {
  check_drawn_convolutions(100);
}
TEST_CASE("small geometries: random convolutions, seeds from 200") {
  check_drawn_convolutions(200);
}
TEST_CASE("small geometries: random convolutions, seeds from 300") {
  check_drawn_convolutions(300);
}
TEST_CASE("small geometries: random deconvolutions, seeds from 0") {
  check_drawn_deconvolutions(0);
}
TEST_CASE("small geometries: random deconvolutions, seeds from 100") {
  check_drawn_deconvolutions(100);
}

// oneDNN's bf16 code for AMX gave wrong results in one of four runs with several threads.
TEST_CASE("small geometries: long strides") {
  for (int i = 0; i < 3; ++i) {
    for (const uint64_t seed : {2145, 2345, 2970, 3789})
      check_convolution(Draw(seed).deconvolution(), true);
    check_convolution({.samples = 2,
                       .channels = 16,
                       .outputs = 32,
                       .size = {13, 17},
                       .kernel = {7, 5},
                       .stride = {2, 4},
                       .padding = {0, 1}});
  }
}

// Runs only with --no-skip; takes several minutes.
TEST_CASE("small geometries: thousands of random convolutions and deconvolutions" *
          doctest::skip()) {
  for (uint64_t seed = 1000; seed < 4000; ++seed) {
    CAPTURE(seed);
    check_convolution(Draw(seed).convolution());
    check_convolution(Draw(seed).deconvolution(), true);
  }
}

TEST_CASE("small geometries: linear layers") {
  for (const int64_t samples : {1, 3})
    for (const int64_t inputs : {1, 7, 16, 17})
      for (const int64_t outputs : {1, 3, 16, 33})
        check_linear(samples, inputs, outputs, outputs % 2 == 1);
}
