#include "layers/cpu/winograd.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "core/philox.h"
#include "core/tensor.h"

using namespace poseidon;
using layers::cpu::Winograd;
using layers::cpu::WinogradGeometry;

namespace {

using Values = std::vector<double>;

Values random_values(int64_t count, uint64_t seed) {
  RandomStream random(seed, RandomPurpose::kGeneration, 0, 0);
  Values values(static_cast<size_t>(count));
  for (double& value : values) value = random.next_uniform(-1, 1);
  return values;
}

/// Reference: a convolution in double precision by its definition. All tensors are in canonical
/// order.
struct Direct {
  WinogradGeometry g;
  int64_t inputs = g.input.channels() / g.groups, outputs = g.output.channels() / g.groups;

  size_t input_at(int64_t n, int64_t c, int64_t y, int64_t x) const {
    return static_cast<size_t>(
        ((n * g.input.channels() + c) * g.input.height() + y) * g.input.width() + x);
  }
  size_t output_at(int64_t n, int64_t c, int64_t y, int64_t x) const {
    return static_cast<size_t>(
        ((n * g.output.channels() + c) * g.output.height() + y) * g.output.width() + x);
  }
  size_t weight_at(int64_t o, int64_t i, int64_t y, int64_t x) const {
    return static_cast<size_t>(((o * inputs + i) * g.kernel + y) * g.kernel + x);
  }

  /// Calls body(index in the input, in the weight, in the output) for each product.
  template <class Body>
  void for_products(const Body& body) const {
    const int64_t taps = g.kernel * g.kernel;
    for (int64_t n = 0; n < g.input.samples(); ++n)
      for (int64_t o = 0; o < g.output.channels(); ++o)
        for (int64_t cell = 0; cell < g.output.area(); ++cell)
          for (int64_t i = 0; i < inputs; ++i)
            for (int64_t tap = 0; tap < taps; ++tap) {
              const int64_t y = cell / g.output.width(), x = cell % g.output.width();
              const int64_t in_y = y + tap / g.kernel - g.padding[0];
              const int64_t in_x = x + tap % g.kernel - g.padding[1];
              if (in_y < 0 || in_y >= g.input.height() || in_x < 0 || in_x >= g.input.width())
                continue;
              body(input_at(n, o / outputs * inputs + i, in_y, in_x),
                   weight_at(o, i, tap / g.kernel, tap % g.kernel), output_at(n, o, y, x));
            }
  }
};

/// Channels per block.
const int64_t kLanes = WinogradGeometry::lanes();

std::vector<float> to_blocked(const Values& canonical, const Shape& shape) {
  std::vector<float> blocked(canonical.size());
  const int64_t area = shape.area();
  for (int64_t i = 0; i < shape.count(); ++i) {
    const int64_t n = i / (shape.channels() * area), c = i / area % shape.channels();
    const int64_t place =
        ((n * shape.channels() + c / kLanes * kLanes) * area + i % area * kLanes) + c % kLanes;
    blocked[static_cast<size_t>(place)] = static_cast<float>(canonical[static_cast<size_t>(i)]);
  }
  return blocked;
}

/// Index of weight (o, i, tap). With n lanes the order is [group][o / n][i / n][tap][i % n][o % n].
/// For backward data it is [group][o / n][i / n][tap][o % n][i % n].
size_t place_of_weight(const Direct& d, int64_t o, int64_t i, int64_t tap, bool backward) {
  const int64_t taps = d.g.kernel * d.g.kernel, group = o / d.outputs, own = o % d.outputs;
  const int64_t block = (own / kLanes * (d.inputs / kLanes) + i / kLanes) * taps + tap;
  const int64_t lane = backward ? own % kLanes * kLanes + i % kLanes  //
                                : i % kLanes * kLanes + own % kLanes;
  return static_cast<size_t>(group * d.outputs * d.inputs * taps + block * kLanes * kLanes + lane);
}

std::vector<float> pack_weight(const Direct& d, const Values& weight, bool backward) {
  std::vector<float> packed(weight.size());
  const int64_t taps = d.g.kernel * d.g.kernel;
  for (int64_t k = 0; k < static_cast<int64_t>(weight.size()); ++k) {
    const int64_t o = k / (d.inputs * taps), i = k / taps % d.inputs;
    packed[place_of_weight(d, o, i, k % taps, backward)] =
        static_cast<float>(weight[static_cast<size_t>(k)]);
  }
  return packed;
}

void check_near(const std::vector<float>& got, const std::vector<float>& expected) {
  REQUIRE(got.size() == expected.size());
  double largest = 0;
  for (const float value : expected) largest = std::max<double>(largest, std::abs(value));
  size_t wrong = 0;  // counts NaN too
  for (size_t i = 0; i < got.size(); ++i)
    if (!(std::abs(static_cast<double>(got[i]) - expected[i]) <= 1e-5 * largest)) ++wrong;
  CHECK(wrong == 0);
}

/// Memory filled with NaN, so that reads of unwritten values are visible.
std::vector<std::byte> scratch_of(size_t bytes) {
  return std::vector<std::byte>(bytes, std::byte{0xFF});
}
std::vector<float> unwritten(size_t count) {
  return std::vector<float>(count, std::numeric_limits<float>::quiet_NaN());
}

void check_forward(const Direct& d, int threads) {
  const Values input = random_values(d.g.input.count(), 1);
  const Values weight =
      random_values(d.g.output.channels() * d.inputs * d.g.kernel * d.g.kernel, 2);
  const Values bias = random_values(d.g.output.channels(), 3);
  Values output(static_cast<size_t>(d.g.output.count()));
  for (size_t i = 0; i < output.size(); ++i)
    output[i] = bias[i / static_cast<size_t>(d.g.output.area()) % bias.size()];
  d.for_products([&](size_t x, size_t w, size_t y) { output[y] += input[x] * weight[w]; });
  for (double& value : output) value = value > 0 ? value : 0.25 * value;

  cpu::ThreadTeam team(threads);
  const auto winograd = Winograd::make(d.g, DataType::kFp32, team);
  auto scratch = scratch_of(winograd->forward_scratch_bytes());
  std::vector<float> got = unwritten(output.size());
  const std::vector<float> narrow_bias(bias.begin(), bias.end());
  winograd->forward(to_blocked(input, d.g.input).data(), pack_weight(d, weight, false).data(),
                    {.bias = narrow_bias.data(), .relu = 0.25F}, got.data(), scratch.data());
  check_near(got, to_blocked(output, d.g.output));
}

/// Returns the gradients of the weight and of the bias.
std::vector<float> check_backward(const Direct& d, int threads) {
  const Values input = random_values(d.g.input.count(), 1);
  const Values weight =
      random_values(d.g.output.channels() * d.inputs * d.g.kernel * d.g.kernel, 2);
  const Values gradient = random_values(d.g.output.count(), 4);
  Values to_input(input.size()), to_weight(weight.size());
  d.for_products([&](size_t x, size_t w, size_t y) {
    to_input[x] += gradient[y] * weight[w];
    to_weight[w] += gradient[y] * input[x];
  });
  Values to_bias(static_cast<size_t>(d.g.output.channels()));
  for (size_t i = 0; i < gradient.size(); ++i)
    to_bias[i / static_cast<size_t>(d.g.output.area()) % to_bias.size()] += gradient[i];

  const std::vector<float> blocked_gradient = to_blocked(gradient, d.g.output);
  cpu::ThreadTeam team(threads);
  const auto data = Winograd::make(d.g.of_backward_data(), DataType::kFp32, team);
  auto scratch = scratch_of(data->forward_scratch_bytes());
  std::vector<float> got = unwritten(input.size());
  data->forward(blocked_gradient.data(), pack_weight(d, weight, true).data(), {.turned = true},
                got.data(), scratch.data());
  check_near(got, to_blocked(to_input, d.g.input));

  const auto weights = Winograd::make(d.g, DataType::kFp32, team);
  scratch = scratch_of(weights->backward_weights_scratch_bytes());
  std::vector<float> got_weight = unwritten(weight.size());
  std::vector<float> got_bias = unwritten(to_bias.size());
  weights->backward_weights(to_blocked(input, d.g.input).data(), blocked_gradient.data(),
                            got_weight.data(), got_bias.data(), scratch.data());
  check_near(got_weight, pack_weight(d, to_weight, false));
  check_near(got_bias, {to_bias.begin(), to_bias.end()});
  got_weight.insert(got_weight.end(), got_bias.begin(), got_bias.end());
  return got_weight;
}

void check_all(int64_t kernel, std::array<int64_t, 2> padding, int64_t groups, Shape input,
               int64_t outputs) {
  const Shape output{input.samples(), outputs, input.height() + 2 * padding[0] - kernel + 1,
                     input.width() + 2 * padding[1] - kernel + 1};
  const Direct direct{{kernel, padding, groups, input, output}};
  std::vector<float> of_one_thread;
  for (const int threads : {1, 2, 5}) {
    CAPTURE(kernel);
    CAPTURE(threads);
    CAPTURE(input.text());
    check_forward(direct, threads);
    const std::vector<float> gradients = check_backward(direct, threads);
    if (threads == 1) of_one_thread = gradients;
    CHECK((gradients == of_one_thread));
  }
}

}  // namespace

TEST_CASE("winograd: 3 x 3 and 5 x 5 kernels, partial tiles, narrow and wide padding") {
  check_all(3, {1, 1}, 1, {2, 16, 9, 7}, 32);
  check_all(3, {0, 2}, 1, {1, 32, 5, 6}, 16);
  check_all(5, {2, 2}, 1, {2, 16, 7, 9}, 48);
  check_all(5, {4, 0}, 1, {1, 48, 6, 5}, 16);
}

TEST_CASE("winograd: groups") {
  check_all(3, {1, 1}, 2, {2, 32, 6, 6}, 64);
  check_all(5, {2, 2}, 3, {1, 48, 6, 6}, 48);
}

TEST_CASE("winograd: more tiles than a block holds, and fewer tiles than threads") {
  check_all(3, {1, 1}, 1, {1, 16, 44, 44}, 16);
  check_all(3, {1, 1}, 1, {1, 16, 2, 2}, 16);
}

TEST_CASE("winograd: several sums of a weight's gradient") {
  check_all(3, {1, 1}, 1, {3, 16, 65, 70}, 32);
  check_all(5, {2, 2}, 1, {2, 16, 45, 33}, 16);
}

TEST_CASE("winograd: threads split the outputs if the weight is larger than the tiles") {
  check_all(3, {1, 1}, 1, {1, 64, 4, 4}, 192);
  check_all(5, {2, 2}, 1, {1, 64, 4, 4}, 80);
  // Five threads share two parts of tiles times two parts of outputs. One thread has no work.
  check_all(3, {1, 1}, 1, {4, 64, 8, 8}, 64);
}
