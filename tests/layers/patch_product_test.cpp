// Products of patches, bit by bit: each element is one sequence of fused multiply-adds, in every
// layout and with every number of threads. Results and scratch memory begin as NaN.

#include "layers/cpu/patch_product.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>

#include "layers/cpu/narrow_product.h"
#include "tests/layers/multiply_add.h"
#include "tests/layers/random_floats.h"

using namespace poseidon;
using namespace poseidon::layers::cpu;
using product::NarrowProduct, product::PatchProduct;

namespace {

const float kUnwritten = std::nanf("");

/// A convolution of the channels of one group, or a transposed one: its result is written to every
/// `result_step`-th cell from `result_first` on.
struct PatchCase {
  Shape source;
  int64_t outputs = 1;
  std::array<int64_t, 2> kernel{1, 1}, stride{1, 1}, dilation{1, 1}, padding{0, 0};
  std::array<int64_t, 2> size{1, 1};  ///< rows and columns of the grid
  int64_t groups = 1;
  std::array<int64_t, 2> result_first{0, 0}, result_step{1, 1};

  int64_t channels() const { return source.channels() / groups; }
  int64_t places() const { return source.samples() * size[0] * size[1]; }
  int64_t taps() const { return kernel[0] * kernel[1]; }
  Shape result() const {
    return {source.samples(), outputs * groups, result_first[0] + size[0] * result_step[0],
            result_first[1] + size[1] * result_step[1]};
  }
  PatchGrid grid() const {
    PatchGrid grid{.samples = source.samples(),
                   .height = size[0],
                   .width = size[1],
                   .step = stride,
                   .taps = {}};
    for (int64_t y = 0; y < kernel[0]; ++y)
      for (int64_t x = 0; x < kernel[1]; ++x)
        grid.taps.push_back(
            {.index = y * kernel[1] + x,
             .offset = {y * dilation[0] - padding[0], x * dilation[1] - padding[1]}});
    return grid;
  }
};

/// Sizes below and above a tile, and a depth above that of a panel. Strides of 1 to 3, dilation,
/// padding that is as large as the source, narrow grids, groups.
const std::vector<PatchCase> kPatchCases{
    {.source = {2, 3, 9, 11}, .outputs = 5, .kernel = {3, 3}, .padding = {1, 1}, .size = {9, 11}},
    {.source = {1, 40, 6, 5}, .outputs = 40, .kernel = {3, 3}, .padding = {1, 1}, .size = {6, 5}},
    {.source = {3, 17, 7, 7}, .outputs = 33, .size = {7, 7}},
    {.source = {1, 2, 40, 40},
     .outputs = 7,
     .kernel = {3, 2},
     .stride = {2, 2},
     .dilation = {2, 3},
     .padding = {2, 1},
     .size = {20, 20}},
    {.source = {2, 6, 8, 20},
     .outputs = 4,
     .kernel = {2, 3},
     .stride = {1, 3},
     .padding = {0, 1},
     .size = {7, 7},
     .groups = 2},
    {.source = {1, 16, 20, 20},
     .outputs = 16,
     .kernel = {3, 3},
     .padding = {1, 1},
     .size = {20, 20}},
    {.source = {2, 1, 3, 3}, .outputs = 20, .kernel = {5, 5}, .padding = {4, 4}, .size = {7, 7}},
    {.source = {4, 5, 30, 1}, .outputs = 3, .kernel = {3, 1}, .padding = {1, 0}, .size = {30, 1}},
    {.source = {2, 48, 5, 9}, .outputs = 32, .stride = {1, 2}, .size = {5, 5}, .groups = 2},
    {.source = {3, 20, 19, 21},
     .outputs = 2,
     .kernel = {4, 3},
     .stride = {2, 3},
     .dilation = {3, 1},
     .padding = {2, 4},
     .size = {7, 9}},
    {.source = {70, 9, 3, 2},
     .outputs = 1,
     .kernel = {3, 3},
     .padding = {1, 2},
     .size = {3, 4},
     .result_first = {1, 1},
     .result_step = {1, 2}},
    {.source = {2, 8, 5, 6},
     .outputs = 16,
     .kernel = {2, 2},
     .padding = {1, 1},
     .size = {5, 6},
     .result_first = {1, 0},
     .result_step = {2, 3}}};

const std::vector kLayouts{Layout::kPlain, Layout::kChannelsLast, Layout::kBlocked8,
                           Layout::kBlocked16};

/// The operands of one case. The source and the result are plain; the weight is
/// [group][tap][channel][output].
struct Operands {
  explicit Operands(const PatchCase& each)
      : source(test::random_floats(each.source.count(), 0)),
        weight(test::random_floats(each.groups * each.taps() * each.channels() * each.outputs, 1)),
        bias(test::random_floats(each.groups * each.outputs, 2)) {}
  std::vector<float> source, weight, bias;
};

struct Epilogue {
  bool bias;
  std::optional<float> relu;
};

/// One element of the result: a chain in ascending order of taps, then channels.
float expected_element(const PatchCase& each, const Operands& operands, const Epilogue& epilogue,
                       int64_t place, int64_t output) {
  const int64_t group = output / each.outputs, own = output % each.outputs;
  const PatchGrid grid = each.grid();
  const PatchCursor at(grid, place);
  float sum = epilogue.bias ? operands.bias[static_cast<size_t>(output)] : 0.0F;
  const float* weight =
      operands.weight.data() + group * each.taps() * each.channels() * each.outputs;
  for (const Tap& tap : grid.taps) {
    const int64_t y = at.row * each.stride[0] + tap.offset[0];
    const int64_t x = at.column * each.stride[1] + tap.offset[1];
    const bool inside = y >= 0 && y < each.source.height() && x >= 0 && x < each.source.width();
    for (int64_t channel = 0; channel < each.channels(); ++channel, weight += each.outputs) {
      const Blocking plain(each.source, Layout::kPlain);
      const int64_t cell = y * each.source.width() + x;
      const float value = inside ? operands.source[static_cast<size_t>(plain.offset(
                                       at.sample, group * each.channels() + channel, cell))]
                                 : 0.0F;
      sum = test::multiply_add(value, weight[own], sum);
    }
  }
  if (epilogue.relu && sum <= 0) return *epilogue.relu == 0 ? 0.0F : sum * *epilogue.relu;
  return sum;
}

/// The result in plain order. Cells that are not written are NaN.
std::vector<float> expected_result(const PatchCase& each, const Operands& operands,
                                   const Epilogue& epilogue) {
  const Shape shape = each.result();
  const Blocking plain(shape, Layout::kPlain);
  std::vector<float> result(static_cast<size_t>(shape.count()), kUnwritten);
  const PatchGrid grid = each.grid();
  for (int64_t place = 0; place < each.places(); ++place) {
    const PatchCursor at(grid, place);
    const int64_t y = each.result_first[0] + at.row * each.result_step[0];
    const int64_t x = each.result_first[1] + at.column * each.result_step[1];
    for (int64_t output = 0; output < shape.channels(); ++output)
      result[static_cast<size_t>(plain.offset(at.sample, output, y * shape.width() + x))] =
          expected_element(each, operands, epilogue, place, output);
  }
  return result;
}

/// Calls body(index in the plain order, index in `layout`) for each element.
template <class Body>
void for_each_element(const Shape& shape, Layout layout, const Body& body) {
  const Blocking plain(shape, Layout::kPlain), blocking(shape, layout);
  for (int64_t sample = 0; sample < shape.samples(); ++sample)
    for (int64_t channel = 0; channel < shape.channels(); ++channel)
      for (int64_t cell = 0; cell < shape.area(); ++cell)
        body(static_cast<size_t>(plain.offset(sample, channel, cell)),
             static_cast<size_t>(blocking.offset(sample, channel, cell)));
}

std::vector<float> in_layout(const std::vector<float>& plain, const Shape& shape, Layout layout) {
  std::vector<float> values(static_cast<size_t>(stored_count(shape, layout)), kUnwritten);
  for_each_element(shape, layout, [&](size_t from, size_t to) { values[to] = plain[from]; });
  return values;
}

struct Layouts {
  Layout in, out;
  bool by_outputs;  ///< the weight is [tap][output][channel] instead of [tap][channel][output]
  int threads;
};

/// A copy of the weight of one group in the order of `layouts`.
std::vector<float> ordered_weight(const PatchCase& each, const Operands& operands,
                                  const Layouts& layouts, int64_t group) {
  const int64_t of_tap = each.channels() * each.outputs;
  const auto begin = operands.weight.begin() + group * each.taps() * of_tap;
  std::vector<float> weight(begin, begin + each.taps() * of_tap);
  if (!layouts.by_outputs) return weight;
  for (int64_t i = 0; i < each.taps() * of_tap; ++i) {
    const int64_t tap = i / of_tap, channel = i % of_tap / each.outputs, output = i % each.outputs;
    weight[static_cast<size_t>(tap * of_tap + output * each.channels() + channel)] =
        begin[static_cast<std::ptrdiff_t>(i)];
  }
  return weight;
}

/// Runs all tasks of the product of one group, each on the next free thread.
template <class Product>
void run_group(const PatchCase& each, const Operands& operands, const Epilogue& epilogue,
               const Layouts& layouts, int64_t group, const std::vector<float>& source,
               std::vector<float>& result) {
  const std::vector<float> weight = ordered_weight(each, operands, layouts, group);
  const product::PatchWeight order{.tap_step = each.channels() * each.outputs,
                                   .channel_step = layouts.by_outputs ? 1 : each.outputs,
                                   .result_step = layouts.by_outputs ? each.channels() : 1};
  const Product product(
      Patches(each.grid(), each.source, layouts.in, group * each.channels(), each.channels()),
      order,
      {.shape = each.result(),
       .layout = layouts.out,
       .first = each.result_first,
       .step = each.result_step,
       .first_channel = group * each.outputs,
       .channels = each.outputs},
      layouts.threads);
  std::vector<float> panels(static_cast<size_t>(product.weight_elements()), kUnwritten);
  for (int64_t panel = 0; panel < product.weight_panels(); ++panel)
    product.pack_weight(panel, weight.data(), panels.data());
  constexpr int64_t kBeyond = 32;  // at least the columns of a tile
  std::vector<float> bias(static_cast<size_t>(each.outputs + kBeyond));
  std::copy_n(operands.bias.begin() + group * each.outputs, each.outputs, bias.begin());
  std::atomic<int64_t> next = 0;
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < layouts.threads; ++thread)
    threads.emplace_back([&] {
      std::vector<float> scratch(static_cast<size_t>(product.scratch_bytes()) / sizeof(float),
                                 kUnwritten);
      for (int64_t task = next++; task < product.tasks(); task = next++)
        product.run(task, {.source = source.data(),
                           .weight = weight.data(),
                           .panels = panels.data(),
                           .bias = epilogue.bias ? bias.data() : nullptr,
                           .relu = epilogue.relu,
                           .result = result.data(),
                           .scratch = reinterpret_cast<std::byte*>(scratch.data())});
    });
}

/// The number of elements whose bits differ from the expected ones, or that should be unwritten.
template <class Product>
size_t wrong_elements(const PatchCase& each, const Operands& operands, const Epilogue& epilogue,
                      const Layouts& layouts, const std::vector<float>& expected) {
  const std::vector<float> source = in_layout(operands.source, each.source, layouts.in);
  std::vector<float> result(static_cast<size_t>(stored_count(each.result(), layouts.out)),
                            kUnwritten);
  for (int64_t group = 0; group < each.groups; ++group)
    run_group<Product>(each, operands, epilogue, layouts, group, source, result);
  size_t wrong = 0;
  for_each_element(each.result(), layouts.out, [&](size_t plain, size_t stored) {
    wrong += std::memcmp(&expected[plain], &result[stored], sizeof(float)) != 0;
    result[stored] = 0;
  });
  // The rest is padding. A product that fills whole blocks sets it to zero.
  for (const float value : result) wrong += value != 0 && !std::isnan(value);
  return wrong;
}

template <class Product>
void check_layouts(const PatchCase& each, const Operands& operands, const Epilogue& epilogue,
                   const std::vector<float>& expected) {
  int threads = 0;
  for (const Layout in : kLayouts)
    for (const Layout out : kLayouts)
      for (const bool by_outputs : {false, true}) {
        threads = threads % 3 + 1;
        CAPTURE(layout_name(in));
        CAPTURE(layout_name(out));
        CAPTURE(by_outputs);
        CAPTURE(threads);
        CHECK(wrong_elements<Product>(each, operands, epilogue, {in, out, by_outputs, threads},
                                      expected) == 0);
      }
}

}  // namespace

TEST_CASE("each element of a product of patches is one chain of multiply-adds") {
  for (const PatchCase& each : kPatchCases) {
    const Operands operands(each);
    const std::string shape = each.source.text();
    CAPTURE(shape);
    const Epilogue plain{.bias = false, .relu = std::nullopt};
    const std::vector<float> expected = expected_result(each, operands, plain);
    check_layouts<PatchProduct>(each, operands, plain, expected);
    if (each.outputs <= 4) check_layouts<NarrowProduct>(each, operands, plain, expected);
  }
}

TEST_CASE("a product of patches adds a bias first and applies a relu last") {
  for (const size_t i : {0U, 1U, 4U, 7U}) {
    const PatchCase& each = kPatchCases[i];
    const Operands operands(each);
    for (const float slope : {0.0F, 0.25F}) {
      const Epilogue epilogue{.bias = true, .relu = slope};
      const std::vector<float> expected = expected_result(each, operands, epilogue);
      check_layouts<PatchProduct>(each, operands, epilogue, expected);
      if (each.outputs <= 4) check_layouts<NarrowProduct>(each, operands, epilogue, expected);
    }
  }
}

TEST_CASE("a product of patches has the same bits with each number of threads") {
  const PatchCase each{.source = {2, 24, 30, 30},
                       .outputs = 70,
                       .kernel = {1, 2},
                       .padding = {0, 1},
                       .size = {30, 31}};
  const Operands operands(each);
  const Epilogue plain{.bias = false, .relu = std::nullopt};
  const std::vector<float> expected = expected_result(each, operands, plain);
  for (const int threads : {1, 2, 3, 16})
    for (const Layout layout : {Layout::kBlocked8, Layout::kBlocked16}) {
      CAPTURE(threads);
      const Layouts layouts{layout, layout, false, threads};
      CHECK(wrong_elements<PatchProduct>(each, operands, plain, layouts, expected) == 0);
    }
}
