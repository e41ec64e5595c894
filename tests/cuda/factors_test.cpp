// Gradients from factors on emulated GPUs, bit by bit: each element is one chain, as on CPUs.

#include "layers/cuda/factors.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "core/philox.h"
#include "tests/support/gpu/emulated_gpu_backend.h"

using namespace poseidon;

namespace {

struct FactorCase {
  layers::FactorShape shape;
  int64_t samples;
};

/// Sizes below, at and above a tile of 128 and a depth of 16. Odd sizes are not whole packs.
const std::vector<FactorCase> kFactorCases{{{1, 1, true}, 1},      {{128, 128, true}, 16},
                                           {{130, 257, true}, 35}, {{132, 260, false}, 20},
                                           {{5, 300, true}, 33},   {{259, 4, true}, 100}};

std::vector<float> random_values(int64_t count, uint64_t which) {
  RandomStream stream(3, RandomPurpose::kGeneration, which, 0);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = stream.next_uniform(-1, 1);
  return values;
}

/// [outputs][inputs], then the bias.
std::vector<float> expected_gradients(const FactorCase& each, const std::vector<float>& deltas,
                                      const std::vector<float>& activations) {
  const int64_t outputs = each.shape.deltas, inputs = each.shape.activations;
  std::vector<float> all(static_cast<size_t>(outputs * (inputs + 1)));
  for (int64_t output = 0; output < outputs; ++output)
    for (int64_t sample = 0; sample < each.samples; ++sample) {
      const float delta = deltas[static_cast<size_t>(sample * outputs + output)];
      for (int64_t input = 0; input < inputs; ++input) {
        float& sum = all[static_cast<size_t>(output * inputs + input)];
        sum = std::fmaf(delta, activations[static_cast<size_t>(sample * inputs + input)], sum);
      }
      if (each.shape.bias) all[static_cast<size_t>(outputs * inputs + output)] += delta;
    }
  return all;
}

/// A convolution of stacked samples. It has several tiles, and a group may end within a tile.
layers::Convolution convolution_of(const Shape& input, int64_t outputs,
                                   std::array<int64_t, 2> kernel, int64_t groups, Sides padding,
                                   std::array<int64_t, 2> stride) {
  layers::Convolution convolution;
  convolution.outputs = outputs;
  convolution.kernel = kernel;
  convolution.groups = groups;
  convolution.padding = padding;
  convolution.stride = stride;
  convolution.infer({{input}});
  return convolution;
}

std::vector<layers::Convolution> stacked_convolutions() {
  return {convolution_of({3, 31, 6, 5}, 140, {3, 3}, 1, Sides::of({1, 1}), {1, 1}),
          convolution_of({2, 32, 7, 6}, 132, {2, 3}, 1, {{1, 0}, {0, 2}}, {2, 1}),
          convolution_of({2, 64, 5, 5}, 12, {3, 3}, 2, Sides::of({1, 1}), {1, 1}),
          convolution_of({2, 6, 5, 5}, 264, {3, 2}, 2, Sides::of({0, 1}), {1, 2}),
          convolution_of({5, 264, 2, 2}, 30, {1, 1}, 2, {}, {1, 1}),
          convolution_of({5, 6, 3, 2}, 20, {1, 1}, 2, {}, {1, 1})};
}

/// [outputs][kernel height][kernel width][inputs / groups], then the bias.
std::vector<float> expected_gradients(const layers::Convolution& of,
                                      const std::vector<float>& deltas,
                                      const std::vector<float>& activations) {
  const int64_t taps = of.kernel[0] * of.kernel[1], inputs = of.input.channels() / of.groups;
  const int64_t area = of.output.area(), rows = of.output.samples() * area;
  std::vector<float> all(static_cast<size_t>(of.outputs * (taps * inputs + 1)));
  for (int64_t output = 0; output < of.outputs; ++output) {
    const int64_t first = output / (of.outputs / of.groups) * inputs;
    double bias = 0;
    for (int64_t row = 0; row < rows; ++row) {
      const float delta = deltas[static_cast<size_t>(row * of.outputs + output)];
      const int64_t sample = row / area, top = row % area / of.output.width() * of.stride[0],
                    left = row % of.output.width() * of.stride[1];
      for (int64_t i = 0; i < taps * inputs; ++i) {
        const int64_t tap = i / inputs;
        const int64_t y = top + tap / of.kernel[1] - of.padding.before[0];
        const int64_t x = left + tap % of.kernel[1] - of.padding.before[1];
        const bool inside = y >= 0 && y < of.input.height() && x >= 0 && x < of.input.width();
        const int64_t cell = (sample * of.input.height() + y) * of.input.width() + x;
        const int64_t from = cell * of.input.channels() + first + i % inputs;
        float& sum = all[static_cast<size_t>(output * taps * inputs + i)];
        sum = std::fmaf(delta, inside ? activations[static_cast<size_t>(from)] : 0.0F, sum);
      }
      bias += static_cast<double>(delta);
    }
    all[static_cast<size_t>(of.outputs * taps * inputs + output)] = static_cast<float>(bias);
  }
  return all;
}

/// The gradients that `rebuild` issues: the weight, then the bias.
struct Rebuilding {
  int64_t weights, outputs;
  std::function<void(cuda::CudaDevice&, const layers::FactorMemory&, float* weight, float* bias)>
      rebuild;
};

std::vector<float> rebuilt_gradients(const Rebuilding& of, const std::vector<float>& deltas,
                                     const std::vector<float>& activations, uint64_t seed) {
  const layers::Backend backend = test::make_emulated_gpu_backend({.seed = seed});
  auto& device = static_cast<cuda::CudaDevice&>(*backend.device);
  const auto copy_of = [&](const std::vector<float>& values) {
    Buffer copy = device.allocate(values.size() * sizeof(float), MemoryKind::kDevice, "a test");
    device.write(std::as_bytes(std::span(values)), copy.as<std::byte>());
    return copy;
  };
  const Buffer of_deltas = copy_of(deltas), of_activations = copy_of(activations);
  std::vector<float> all(static_cast<size_t>(of.weights + of.outputs));
  const Buffer weight = copy_of(std::vector<float>(static_cast<size_t>(of.weights), NAN));
  const Buffer bias = copy_of(std::vector<float>(static_cast<size_t>(of.outputs), 0.0F));
  of.rebuild(
      device,
      {.deltas = of_deltas.as<float>().data(), .activations = of_activations.as<float>().data()},
      weight.as<float>().data(), bias.as<float>().data());
  const auto bytes = std::as_writable_bytes(std::span(all));
  device.read(weight.as<std::byte>(), bytes.first(weight.bytes()));
  device.read(bias.as<std::byte>(), bytes.subspan(weight.bytes()));
  return all;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("GPUs compute each element of a gradient from factors as one chain of multiply-adds") {
  for (const FactorCase& each : kFactorCases)
    for (const uint64_t seed : {0U, 5U}) {
      CAPTURE(each.shape.deltas);
      CAPTURE(each.shape.activations);
      CAPTURE(each.samples);
      CAPTURE(seed);
      const std::vector<float> deltas = random_values(each.samples * each.shape.deltas, 0);
      const std::vector<float> activations =
          random_values(each.samples * each.shape.activations, 1);
      const Rebuilding rebuilding{
          .weights = each.shape.deltas * each.shape.activations,
          .outputs = each.shape.deltas,
          .rebuild = [&](cuda::CudaDevice& device, const layers::FactorMemory& factors,
                         float* weight, float* bias) {
            layers::cuda::rebuild_gradients(device, each.shape, each.samples, factors, weight,
                                            each.shape.bias ? bias : nullptr);
          }};
      CHECK(same_bits(rebuilt_gradients(rebuilding, deltas, activations, seed),
                      expected_gradients(each, deltas, activations)));
    }
}

TEST_CASE("GPUs compute each element of a convolution's gradient from factors as one chain") {
  for (const layers::Convolution& each : stacked_convolutions())
    for (const uint64_t seed : {0U, 5U}) {
      CAPTURE(each.input.text());
      CAPTURE(each.outputs);
      CAPTURE(seed);
      const std::vector<float> deltas = random_values(each.output.count(), 0);
      const std::vector<float> activations = random_values(each.input.count(), 1);
      const Rebuilding rebuilding{
          .weights = each.parameters()[0].shape.count(),
          .outputs = each.outputs,
          .rebuild = [&](cuda::CudaDevice& device, const layers::FactorMemory& factors,
                         float* weight, float* bias) {
            layers::cuda::rebuild_gradients(device, each, factors, weight, bias);
          }};
      CHECK(same_bits(rebuilt_gradients(rebuilding, deltas, activations, seed),
                      expected_gradients(each, deltas, activations)));
    }
}
