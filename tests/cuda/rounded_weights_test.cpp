// With bf16 activations, a GPU's convolutions read rounded weights. Each writer of a weight must
// also write the rounded weight.

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>

#include "core/bf16.h"
#include "tests/support/gpu/emulated_gpu_backend.h"
#include "tests/trainer/made_training.h"
#include "tests/trainer/tiny_job.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

Training bf16_training(const Job& job, int versions) {
  return {test::make_emulated_gpu_backend({.seed = 5}, {.precision = cuda::Precision::kBf16,
                                                        .graphs = cuda::Graphs::kCompared}),
          job,
          {.versions = versions}};
}

template <class Value>
std::vector<Value> on_host(Device& device, std::span<const Value> there) {
  std::vector<Value> values(there.size());
  device.read(std::as_bytes(there), std::as_writable_bytes(std::span(values)));
  return values;
}

/// Compares each rounded parameter with its value. Returns the number of rounded values.
size_t check_rounded(net::Net& net) {
  size_t count = 0;
  for (const net::Parameter& parameter : net.parameters()) {
    const auto rounded = on_host<Bf16>(net.device(), parameter.rounded.current());
    const auto values = on_host<float>(net.device(), parameter.value());
    const auto bits = [](Bf16 value) { return std::bit_cast<uint16_t>(value); };
    for (size_t i = 0; i < rounded.size(); ++i) REQUIRE(bits(rounded[i]) == bits(Bf16(values[i])));
    count += rounded.size();
  }
  return count;
}

constexpr size_t kWeights = 5 * 2 * 3 * 3;  ///< of the tiny network's convolution

}  // namespace

TEST_CASE("rounded weights follow initial values, updates, reverts and loaded values") {
  const TinyJob tiny;
  const Job job = tiny.load({"device.type=cuda"});
  for (const int versions : {1, 2}) {
    CAPTURE(versions);
    Training training = bf16_training(job, versions);
    net::Net& net = training.engine.net();
    CHECK(check_rounded(net) == kWeights);
    for (int step = 0; step < 4; ++step) training.loop.step();
    training.loop.finish();
    CHECK(check_rounded(net) == kWeights);
    if (versions == 2) {
      for (const int layer : net.parameters().summed_layers()) net.parameters().flip(layer);
      CHECK(check_rounded(net) == kWeights);
    }
    const std::vector<float> loaded(kWeights, 1.01F);
    net.values().set_canonical(net.parameters()[0], loaded);
    CHECK(check_rounded(net) == kWeights);
  }
}

TEST_CASE("rounded weights are those of the EMA while the net uses the EMA") {
  const TinyJob tiny;
  const Job job = tiny.load({"device.type=cuda", "optimizer.average_decay=0.5"});
  Training training = bf16_training(job, 2);
  net::Net& net = training.engine.net();
  for (int step = 0; step < 3; ++step) training.loop.step();
  training.loop.finish();
  const auto before = on_host<float>(net.device(), net.parameters()[0].value());
  training.optimizer.averages()->with_ema([&] {
    CHECK(on_host<float>(net.device(), net.parameters()[0].value()) != before);
    CHECK(check_rounded(net) == kWeights);
  });
  CHECK(on_host<float>(net.device(), net.parameters()[0].value()) == before);
  CHECK(check_rounded(net) == kWeights);
}

TEST_CASE("a net in fp32 has no rounded weights") {
  const TinyJob tiny;
  const Job job = tiny.load({"device.type=cuda"});
  Training training(test::make_emulated_gpu_backend({}), job);
  CHECK(check_rounded(training.engine.net()) == 0);
}
