// Gradients from stacked factors, bit by bit: each element is one sequence of fused multiply-adds.

#include "layers/cpu/factors.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <span>
#include <thread>

#include "core/buffer.h"
#include "core/philox.h"
#include "layers/cpu/linear_product.h"
#include "tests/layers/multiply_add.h"

using namespace poseidon;
using namespace poseidon::layers::cpu;

namespace {

using poseidon::cpu::FormatTag, poseidon::cpu::kFloat;

struct FactorCase {
  layers::FactorShape shape;
  int64_t samples;
};

/// Odd and even numbers of outputs, inputs and samples. Above 320 samples, sums continue over
/// several panels. The last two gradients are so large that they are written past the caches.
const std::vector<FactorCase> kFactorCases{
    {{1, 1, true}, 1},      {{16, 16, true}, 3},    {{33, 70, true}, 320}, {{130, 17, false}, 321},
    {{300, 70, true}, 700}, {{128, 64, true}, 640}, {{520, 512, true}, 9}, {{530, 517, true}, 20}};

struct Factors {
  explicit Factors(const FactorCase& each)
      : deltas(random(each.samples * each.shape.deltas, 0)),
        activations(random(each.samples * each.shape.activations, 1)) {}

  static std::vector<float> random(int64_t count, uint64_t which) {
    RandomStream stream(3, RandomPurpose::kGeneration, which, 0);
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = stream.next_uniform(-1, 1);
    return values;
  }

  std::vector<float> deltas, activations;
};

/// Reference gradients: [outputs][inputs], then the bias.
std::vector<float> expected_gradients(const FactorCase& each, const Factors& factors) {
  const layers::FactorShape& shape = each.shape;
  std::vector<float> all(static_cast<size_t>(shape.deltas * (shape.activations + 1)));
  for (int64_t output = 0; output < shape.deltas; ++output) {
    float* row = all.data() + output * shape.activations;
    float& bias = all[static_cast<size_t>(shape.deltas * shape.activations + output)];
    for (int64_t sample = 0; sample < each.samples; ++sample) {
      const float delta = factors.deltas[static_cast<size_t>(sample * shape.deltas + output)];
      const float* inputs = factors.activations.data() + sample * shape.activations;
      for (int64_t i = 0; i < shape.activations; ++i)
        row[i] = test::multiply_add(delta, inputs[i], row[i]);
      bias += delta;
    }
  }
  if (!shape.bias) std::fill(all.end() - shape.deltas, all.end(), 0.0F);
  return all;
}

MemoryDesc weight_order(const FactorCase& each) {
  return product::linear_weight_order(
      {.samples = each.samples, .inputs = each.shape.activations, .outputs = each.shape.deltas});
}

/// The gradients by FactorRebuild, in memory that is `offset` floats behind an aligned address.
/// Checks that padding is zero.
std::vector<float> rebuilt_gradients(const FactorCase& each, const Factors& factors, int threads,
                                     size_t offset) {
  const layers::FactorShape& shape = each.shape;
  poseidon::cpu::CpuDevice device(threads);
  const MemoryDesc packed_order = weight_order(each);
  const FactorRebuild rebuild(device, shape, each.samples);
  const Buffer buffer(packed_order.get_size() + offset * sizeof(float));
  const std::span<float> packed = buffer.as<float>().subspan(offset);
  std::ranges::fill(packed, NAN);
  std::vector<float> all(static_cast<size_t>(shape.deltas * (shape.activations + 1)));
  std::vector<std::byte> scratch(rebuild.scratch_bytes(), std::byte{0xFF});
  layers::Bindings memory;
  memory.parameters = {{.gradient = packed.data()},
                       {.gradient = all.data() + shape.deltas * shape.activations}};
  memory.scratch = scratch.data();
  rebuild.run({.deltas = const_cast<float*>(factors.deltas.data()),
               .activations = const_cast<float*>(factors.activations.data())},
              memory, nullptr);
  const MemoryDesc canonical({shape.deltas, shape.activations}, kFloat, FormatTag::oi);
  PreparedReorder(device, packed_order, canonical).run(device, packed.data(), all.data());
  std::vector<float> again(packed.size());
  PreparedReorder(device, canonical, packed_order).run(device, all.data(), again.data());
  CHECK(std::memcmp(again.data(), packed.data(), packed.size() * sizeof(float)) == 0);
  return all;
}

}  // namespace

TEST_CASE("each element of a gradient from factors is one chain of multiply-adds") {
  for (const FactorCase& each : kFactorCases) {
    const Factors factors(each);
    const std::vector<float> expected = expected_gradients(each, factors);
    for (const int threads : {1, 2, 3}) {
      const size_t offset = threads == 2 ? 4 : 0;
      CAPTURE(each.shape.deltas);
      CAPTURE(each.shape.activations);
      CAPTURE(each.samples);
      CAPTURE(threads);
      const std::vector<float> got = rebuilt_gradients(each, factors, threads, offset);
      CHECK(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("a gradient rebuilt for a sink stays within its buffer with several threads") {
  // The inputs and the outputs of the last block are padded.
  const FactorCase each{{300, 70, true}, 40};
  const layers::FactorShape& shape = each.shape;
  const Factors factors(each);
  const std::vector<float> expected = expected_gradients(each, factors);
  const int64_t weights = shape.deltas * shape.activations;
  poseidon::cpu::CpuDevice device(3);
  const FactorRebuild rebuild(device, shape, each.samples);
  const MemoryDesc packed_order = weight_order(each);
  const size_t packed_weights = packed_order.get_size() / sizeof(float);
  constexpr size_t kBeyond = 256 * 80;  // the largest block
  std::vector<float> weight(packed_weights + kBeyond, 5);
  std::vector<float> bias(static_cast<size_t>(shape.deltas) + kBeyond, 5);
  std::vector<std::byte> scratch(rebuild.scratch_bytes());
  layers::Bindings memory;
  memory.parameters = {{.gradient = weight.data()}, {.gradient = bias.data()}};
  memory.scratch = scratch.data();
  std::vector<float> packed(packed_weights), got(expected.size());
  const layers::GradientSink sink = [&](int index, int64_t first, std::span<const float> piece) {
    // Every thread of the team computes a block meanwhile.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::ranges::copy(piece, index == 0 ? packed.begin() + first : got.begin() + weights + first);
  };
  rebuild.run({.deltas = const_cast<float*>(factors.deltas.data()),
               .activations = const_cast<float*>(factors.activations.data())},
              memory, &sink);
  const MemoryDesc canonical({shape.deltas, shape.activations}, kFloat, FormatTag::oi);
  PreparedReorder(device, packed_order, canonical).run(device, packed.data(), got.data());
  CHECK(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)) == 0);
  const auto is_untouched = [](float value) { return value == 5; };
  CHECK(std::all_of(weight.end() - kBeyond, weight.end(), is_untouched));
  CHECK(std::all_of(bias.begin() + shape.deltas, bias.end(), is_untouched));
}
