// Pooling, local response normalization and reorders of small images, compared with plain loops in
// double precision. LayerRunner fills all memory with NaN before each call.

#include <doctest/doctest.h>

#include <cmath>

#include "core/bf16.h"
#include "core/cpu/cpu_device.h"
#include "layers/cpu/reorder.h"
#include "layers/lrn.h"
#include "layers/pooling.h"
#include "tests/support/gradient_check.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

constexpr std::array kLayouts{Layout::kPlain, Layout::kChannelsLast, Layout::kBlocked8,
                              Layout::kBlocked16};

double at(const Values& values, int64_t i) {
  return static_cast<double>(values[static_cast<size_t>(i)]);
}

LayerInputs rounded_inputs(const LayerCase& layer) {
  LayerInputs values = random_inputs(LayerRunner(layer), layer, 1);
  for (Values* tensor : {&values.inputs[0], &values.output_gradients[0]})
    for (float& value : *tensor) value = Bf16(value);
  return values;
}

struct Expected {
  Values output, input_gradient;
};

/// Runs a layer in each layout and data type, with one thread and with three.
void check_every_way(LayerCase layer, const LayerInputs& values, const Expected& expected) {
  const std::string what = layer.json.dump() + " on " + layer.inputs[0].text();
  CAPTURE(what);
  for (const Layout layout : kLayouts)
    for (const DataType type : {DataType::kFp32, DataType::kBf16})
      for (const int threads : {1, 3}) {
        layer.layout = layout;
        layer.type = type;
        layer.threads = threads;
        CAPTURE(std::string(layout_name(layout)));
        CAPTURE(static_cast<int>(type));
        CAPTURE(threads);
        const LayerResults got = LayerRunner(layer).run(values);
        const double relative = type == DataType::kBf16 ? 2e-2 : 1e-5;
        check_close(got.output, expected.output, relative, "output");
        check_close(got.input_gradients[0], expected.input_gradient, relative, "input gradient");
      }
}

/// The input cells that window `o` covers along one axis, and the window's length in the padded
/// input.
struct Window {
  Window(const layers::Pooling& p, int axis, int64_t o) {
    const auto i = static_cast<size_t>(axis);
    const int64_t size = p.input[2 + axis], first = o * p.stride[i] - p.padding.before[i];
    length = std::min(p.kernel[i], size + p.padding.after[i] - first);
    begin = std::max<int64_t>(first, 0);
    end = std::min(first + p.kernel[i], size);
  }
  int64_t begin, end, length;
};

/// Adds one window's output and its contribution to the gradient.
void pool_window(const layers::Pooling& p, int64_t plane, int64_t row, int64_t column,
                 const LayerInputs& values, Expected& expected) {
  const Window rows(p, 0, row), columns(p, 1, column);
  const int64_t out = (plane * p.output[2] + row) * p.output[3] + column;
  const auto cell = [&](int64_t y, int64_t x) { return (plane * p.input[2] + y) * p.input[3] + x; };
  const bool is_max = p.method == layers::PoolingMethod::kMax;
  const double share = 1.0 / static_cast<double>(rows.length * columns.length);
  double sum = 0;
  int64_t best = cell(rows.begin, columns.begin);
  for (int64_t y = rows.begin; y < rows.end; ++y)
    for (int64_t x = columns.begin; x < columns.end; ++x) {
      const int64_t here = cell(y, x);
      sum += at(values.inputs[0], here) * share;
      if (at(values.inputs[0], here) > at(values.inputs[0], best)) best = here;
      if (!is_max)
        expected.input_gradient[static_cast<size_t>(here)] +=
            static_cast<float>(at(values.output_gradients[0], out) * share);
    }
  expected.output[static_cast<size_t>(out)] =
      static_cast<float>(is_max ? at(values.inputs[0], best) : sum);
  if (is_max)
    expected.input_gradient[static_cast<size_t>(best)] +=
        values.output_gradients[0][static_cast<size_t>(out)];
}

void check_pooling(Json fields, const Shape& input) {
  for (const char* method : {"max", "average"})
    for (const char* rounding : {"ceil", "floor"}) {
      fields.update({{"type", "pooling"}, {"method", method}, {"rounding", rounding}});
      const LayerCase layer{.json = fields, .inputs = {input}};
      const LayerRunner runner(layer);
      const auto& pooling = static_cast<const layers::Pooling&>(runner.definition());
      const LayerInputs values = rounded_inputs(layer);
      Expected expected{Values(static_cast<size_t>(pooling.output.count())),
                        Values(static_cast<size_t>(input.count()))};
      for (int64_t plane = 0; plane < input.samples() * input.channels(); ++plane)
        for (int64_t row = 0; row < pooling.output[2]; ++row)
          for (int64_t column = 0; column < pooling.output[3]; ++column)
            pool_window(pooling, plane, row, column, values, expected);
      check_every_way(layer, values, expected);
    }
}

/// For each element of the input of an lrn: the elements of the window around it, as indices in
/// canonical order.
std::vector<std::vector<int64_t>> lrn_windows(const layers::Lrn& lrn) {
  const Shape& in = lrn.input;
  const bool across = lrn.region == layers::LrnRegion::kAcrossChannels;
  const int64_t half = lrn.size / 2, deep = across ? half : 0, wide = across ? 0 : half;
  std::vector<std::vector<int64_t>> windows;
  for (int64_t n = 0; n < in[0]; ++n)
    for (int64_t c = 0; c < in[1]; ++c)
      for (int64_t y = 0; y < in[2]; ++y)
        for (int64_t x = 0; x < in[3]; ++x) {
          windows.emplace_back();
          for (int64_t k = std::max<int64_t>(0, c - deep); k <= std::min(in[1] - 1, c + deep); ++k)
            for (int64_t r = std::max<int64_t>(0, y - wide); r <= std::min(in[2] - 1, y + wide);
                 ++r)
              for (int64_t s = std::max<int64_t>(0, x - wide); s <= std::min(in[3] - 1, x + wide);
                   ++s)
                windows.back().push_back(((n * in[1] + k) * in[2] + r) * in[3] + s);
        }
  return windows;
}

void check_lrn(Json fields, const Shape& input) {
  fields.update({{"type", "lrn"}, {"alpha", 1.5}, {"beta", 0.75}, {"k", 1.25}});
  const LayerCase layer{.json = fields, .inputs = {input}};
  const LayerRunner runner(layer);
  const auto& lrn = static_cast<const layers::Lrn&>(runner.definition());
  const LayerInputs values = rounded_inputs(layer);
  const auto windows = lrn_windows(lrn);
  std::vector<double> gradient(windows.size());
  Expected expected{Values(windows.size()), Values(windows.size())};
  for (size_t i = 0; i < windows.size(); ++i) {
    double squares = 0;
    for (const int64_t k : windows[i]) squares += std::pow(at(values.inputs[0], k), 2);
    const double base = lrn.k + lrn.scaled_alpha() * squares, scale = std::pow(base, -lrn.beta);
    const double x = at(values.inputs[0], static_cast<int64_t>(i));
    const double dy = at(values.output_gradients[0], static_cast<int64_t>(i));
    expected.output[i] = static_cast<float>(x * scale);
    gradient[i] += dy * scale;
    for (const int64_t k : windows[i])
      gradient[static_cast<size_t>(k)] -=
          2 * lrn.scaled_alpha() * lrn.beta * dy * x * scale / base * at(values.inputs[0], k);
  }
  for (size_t i = 0; i < gradient.size(); ++i)
    expected.input_gradient[i] = static_cast<float>(gradient[i]);
  check_every_way(layer, values, expected);
}

}  // namespace

TEST_CASE("small images: pooling whose kernel, stride or padding exceeds the image") {
  check_pooling({{"kernel", 3}, {"padding", 1}}, {2, 3, 1, 1});
  check_pooling({{"kernel", 3}, {"stride", 4}, {"padding", 1}}, {1, 17, 2, 5});
  check_pooling({{"kernel", 2}, {"stride", 3}}, {1, 9, 7, 4});
  check_pooling({{"kernel", 7}, {"stride", 2}, {"padding", 3}}, {2, 16, 2, 1});
  check_pooling({{"kernel", {1, 4}}, {"stride", {5, 1}}, {"padding", {0, 3}}}, {1, 5, 3, 2});
}

TEST_CASE("small images: lrn whose window exceeds the image or the channels") {
  for (const Shape& input : {Shape{2, 1, 1, 1}, Shape{1, 3, 2, 1}, Shape{1, 17, 1, 3}})
    for (const char* region : {"across_channels", "within_channel"})
      for (const int64_t size : {1, 5, 9}) check_lrn({{"size", size}, {"region", region}}, input);
}

TEST_CASE("small images: reorders between all formats") {
  cpu::CpuDevice device(1, DataType::kFp32);
  for (const int64_t channels : {1, 3, 8, 9, 16, 17})
    for (const Layout from : kLayouts)
      for (const Layout to : kLayouts)
        for (const DataType source : {DataType::kFp32, DataType::kBf16})
          for (const DataType target : {DataType::kFp32, DataType::kBf16}) {
            DeviceMemory memory(device);
            const Shape shape{2, channels, 1, 3};
            Values values = random_values(shape.count(), 1);
            for (float& value : values) value = Bf16(value);
            const Tensor in = memory.take_tensor(shape, {from, source});
            const Tensor out = memory.take_tensor(shape, {to, target});
            memory.store(values, in);
            layers::cpu::reorder(device.team(), in, out);
            memory.check_padding_is_zero(out);
            CHECK(memory.load(out) == values);
          }
}
