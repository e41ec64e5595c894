// The passes of a linear layer, bit by bit: each element is one sequence of fused multiply-adds.

#include "layers/cpu/linear_product.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "core/buffer.h"
#include "layers/cpu/scratch.h"
#include "tests/layers/multiply_add.h"
#include "tests/layers/random_floats.h"

using namespace poseidon;
using namespace poseidon::layers::cpu;
using namespace poseidon::layers::cpu::product;

namespace {

using poseidon::cpu::FormatTag, poseidon::cpu::kFloat;

struct LinearValues {
  explicit LinearValues(const LinearSizes& s)
      : sizes(s),
        x(test::random_floats(s.samples * s.inputs, 0)),
        weight(test::random_floats(s.outputs * s.inputs, 1)),
        bias(test::random_floats(s.outputs, 2)),
        dy(test::random_floats(s.samples * s.outputs, 3)) {}

  /// The weight in the order that both passes read, in memory that is aligned to cache lines.
  Buffer packed_weight() const {
    poseidon::cpu::CpuDevice device(1);
    const MemoryDesc order = linear_weight_order(sizes);
    Buffer packed(order.get_size());
    PreparedReorder(device, {{sizes.outputs, sizes.inputs}, kFloat, FormatTag::oi}, order)
        .run(device, const_cast<float*>(weight.data()), packed.data());
    return packed;
  }

  LinearSizes sizes;
  std::vector<float> x, weight, bias, dy;
};

std::vector<float> expected_output(const LinearValues& values, bool bias,
                                   std::optional<float> relu) {
  const LinearSizes& s = values.sizes;
  std::vector<float> all;
  for (int64_t sample = 0; sample < s.samples; ++sample)
    for (int64_t output = 0; output < s.outputs; ++output) {
      const float *x = values.x.data() + sample * s.inputs,
                  *weight = values.weight.data() + output * s.inputs;
      float sum = bias ? values.bias[static_cast<size_t>(output)] : 0.0F;
      for (int64_t i = 0; i < s.inputs; ++i) sum = test::multiply_add(x[i], weight[i], sum);
      all.push_back(relu && sum <= 0 ? (*relu == 0 ? 0.0F : sum * *relu) : sum);
    }
  return all;
}

std::vector<float> expected_input_gradient(const LinearValues& values) {
  const LinearSizes& s = values.sizes;
  std::vector<float> all(values.x.size());
  for (int64_t sample = 0; sample < s.samples; ++sample)
    for (int64_t output = 0; output < s.outputs; ++output)
      for (int64_t i = 0; i < s.inputs; ++i) {
        float& sum = all[static_cast<size_t>(sample * s.inputs + i)];
        sum = test::multiply_add(values.dy[static_cast<size_t>(sample * s.outputs + output)],
                                 values.weight[static_cast<size_t>(output * s.inputs + i)], sum);
      }
  return all;
}

/// Memory that is filled with NaN. The 16 floats after its end must not change.
class NanMemory {
 public:
  explicit NanMemory(size_t floats) : buffer_((floats + 16) * sizeof(float)), floats_(floats) {
    std::ranges::fill(buffer_.as<float>(), NAN);
  }
  float* data() { return buffer_.as<float>().data(); }
  std::vector<float> values() const {
    const auto all = buffer_.as<float>();
    CHECK(std::all_of(all.begin() + static_cast<std::ptrdiff_t>(floats_),
                      all.begin() + static_cast<std::ptrdiff_t>(floats_ + 16),
                      [](float value) { return std::isnan(value); }));
    return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(floats_)};
  }

 private:
  Buffer buffer_;
  size_t floats_;
};

void check_bits(const std::vector<float>& got, const std::vector<float>& expected) {
  REQUIRE(got.size() == expected.size());
  CHECK(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)) == 0);
}

void check_passes(const LinearSizes& sizes, bool bias, std::optional<float> relu) {
  CAPTURE(sizes.samples);
  CAPTURE(sizes.inputs);
  CAPTURE(sizes.outputs);
  CAPTURE(bias);
  CAPTURE(relu.value_or(-1));
  const LinearValues values(sizes);
  const Buffer weight = values.packed_weight();
  const auto output = expected_output(values, bias, relu);
  const auto input_gradient = expected_input_gradient(values);
  for (const int threads : {1, 2, 3}) {
    CAPTURE(threads);
    poseidon::cpu::ThreadTeam team(threads);
    const LinearForward forward(sizes, team);
    NanMemory y(output.size()), forward_scratch(forward.scratch_bytes() / sizeof(float));
    forward.run({.x = values.x.data(),
                 .weight = weight.as<float>().data(),
                 .bias = bias ? values.bias.data() : nullptr,
                 .relu = relu,
                 .y = y.data(),
                 .scratch = forward_scratch.data()});
    check_bits(y.values(), output);
    forward_scratch.values();
    const LinearBackwardData backward(sizes, team);
    NanMemory dx(input_gradient.size()), scratch(backward.scratch_bytes() / sizeof(float));
    backward.run({.dy = values.dy.data(),
                  .weight = weight.as<float>().data(),
                  .dx = dx.data(),
                  .scratch = scratch.data()});
    check_bits(dx.values(), input_gradient);
    scratch.values();
  }
}

}  // namespace

TEST_CASE("linear products: each element is one chain of multiply-adds, for 1 to 70 outputs") {
  for (int64_t size = 1; size <= 70; ++size) {
    const LinearSizes sizes{
        .samples = size * 7 % 40 + 1, .inputs = size * 29 % 70 + 1, .outputs = size};
    check_passes(sizes, size % 3 != 0, size % 2 == 0 ? std::nullopt : std::optional(0.1F));
  }
}

TEST_CASE("linear products: each number of samples") {
  for (int64_t samples = 1; samples <= 40; ++samples)
    check_passes({.samples = samples, .inputs = 35, .outputs = 50}, true, 0.0F);
}

TEST_CASE("linear products: sums that pass through memory") {
  check_passes({.samples = 5, .inputs = 320, .outputs = 321}, true, std::nullopt);
  check_passes({.samples = 33, .inputs = 700, .outputs = 648}, true, 0.0F);
  check_passes({.samples = 17, .inputs = 641, .outputs = 963}, false, 0.25F);
}

TEST_CASE("linear products: many samples") {
  check_passes({.samples = 300, .inputs = 130, .outputs = 200}, true, std::nullopt);
  check_passes({.samples = 2100, .inputs = 17, .outputs = 10}, true, 0.0F);
  check_passes({.samples = 1100, .inputs = 240, .outputs = 65}, false, std::nullopt);
  check_passes({.samples = 260, .inputs = 330, .outputs = 520}, true, 0.0F);
}

TEST_CASE("linear products: relu keeps NaN") {
  const LinearSizes sizes{.samples = 3, .inputs = 8, .outputs = 16};
  LinearValues values(sizes);
  values.x[0] = NAN;
  const Buffer weight = values.packed_weight();
  poseidon::cpu::ThreadTeam team(1);
  const LinearForward forward(sizes, team);
  NanMemory y(static_cast<size_t>(sizes.samples * sizes.outputs)),
      scratch(forward.scratch_bytes() / sizeof(float));
  forward.run({.x = values.x.data(),
               .weight = weight.as<float>().data(),
               .bias = values.bias.data(),
               .relu = 0.0F,
               .y = y.data(),
               .scratch = scratch.data()});
  const std::vector<float> got = y.values();
  CHECK(std::all_of(got.begin(), got.begin() + 16, [](float v) { return std::isnan(v); }));
  CHECK(std::none_of(got.begin() + 16, got.end(), [](float v) { return std::isnan(v); }));
}
