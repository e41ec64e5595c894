// Gradients from factors on emulated GPUs, bit by bit: each element is one chain, as on CPUs.

#include "layers/cuda/factors.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
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

std::vector<float> rebuilt_gradients(const FactorCase& each, const std::vector<float>& deltas,
                                     const std::vector<float>& activations, uint64_t seed) {
  const layers::Backend backend = test::make_emulated_gpu_backend({.seed = seed});
  auto& device = static_cast<cuda::CudaDevice&>(*backend.device);
  const auto copy_of = [&](const std::vector<float>& values) {
    Buffer copy = device.allocate(values.size() * sizeof(float), MemoryKind::kDevice, "a test");
    device.write(std::as_bytes(std::span(values)), copy.as<std::byte>());
    return copy;
  };
  const Buffer of_deltas = copy_of(deltas), of_activations = copy_of(activations);
  const int64_t weights = each.shape.deltas * each.shape.activations;
  std::vector<float> all(static_cast<size_t>(weights + each.shape.deltas));
  const Buffer weight = copy_of(std::vector<float>(static_cast<size_t>(weights), NAN));
  const Buffer bias = copy_of(std::vector<float>(static_cast<size_t>(each.shape.deltas), 0.0F));
  layers::cuda::rebuild_gradients(
      device, each.shape, each.samples,
      {.deltas = of_deltas.as<float>().data(), .activations = of_activations.as<float>().data()},
      weight.as<float>().data(), each.shape.bias ? bias.as<float>().data() : nullptr);
  const auto bytes = std::as_writable_bytes(std::span(all));
  device.read(weight.as<std::byte>(), bytes.first(weight.bytes()));
  device.read(bias.as<std::byte>(), bytes.subspan(weight.bytes()));
  return all;
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
      const std::vector<float> expected = expected_gradients(each, deltas, activations);
      const std::vector<float> got = rebuilt_gradients(each, deltas, activations, seed);
      CHECK(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)) == 0);
    }
}
