// The replay device, which sleeps for measured layer times: its durations, and equal results on all
// workers.

#include <doctest/doctest.h>

#include "layers/replay/backend.h"
#include "tests/support/busy_machine.h"
#include "tests/support/factor_runner.h"
#include "tests/trainer/made_training.h"
#include "tests/trainer/tiny_job.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

/// Times per layer of the tiny network, in milliseconds for a batch of 8.
Json times(double forward_ms, double backward_ms, double update_ms) {
  Json layers = Json::array();
  for (const char* name : {"conv", "bn", "ip"})
    layers.push_back({{"name", name},
                      {"type", name == std::string("ip") ? "linear" : "convolution"},
                      {"forward_ms", forward_ms},
                      {"backward_ms", backward_ms},
                      {"backward_gflops", 1.0}});
  layers.push_back({{"name", "reorder after conv"},
                    {"type", "reorder"},
                    {"forward_ms", forward_ms},
                    {"backward_ms", 0.0}});
  return {{"batch", 8}, {"update_ms", update_ms}, {"layers", layers}};
}

Job replayed(const TinyJob& tiny, const Json& layer_times,
             std::vector<std::string> overrides = {}) {
  const fs::path file = tiny.folder / "times.json";
  write_text(file, layer_times.dump());
  overrides.push_back("device.type=replay");
  overrides.push_back("device.times=" + file.string());
  return tiny.load(overrides);
}

}  // namespace

TEST_CASE("a step takes as long as its layers, reorders and updates were measured to take") {
  const TinyJob tiny;
  const Job job = replayed(tiny, times(1, 2, 3));
  Training training(job);
  training.loop.step();
  training.loop.drain();
  const auto start = std::chrono::steady_clock::now();
  for (int step = 0; step < 10; ++step) training.loop.step();
  training.loop.drain();
  const double step_ms = milliseconds_since(start) / 10;
  CHECK(step_ms >= 12.9);  // 4 x 1 + 3 x 2 + 3
  CHECK(step_ms < 40 * test::slowdown());
}

TEST_CASE("half a batch takes half the time") {
  const TinyJob tiny;
  const Job job = replayed(tiny, times(4, 0, 0), {"cluster.logical_shards=2"});
  Training training(job);
  const auto start = std::chrono::steady_clock::now();
  training.loop.step();
  const double step_ms = milliseconds_since(start);
  CHECK(step_ms >= 15);  // 2 x 4 layers x 2 ms = 16 ms, less the overshoot of an earlier sleep
  CHECK(step_ms < 60 * test::slowdown());
}

TEST_CASE("a replayed step gives the same values on every worker, and each step gives others") {
  const TinyJob tiny;
  const Job job = replayed(tiny, times(0, 0, 0));
  Training one(job), other(job);
  std::vector<float> before = one.state();
  for (int step = 0; step < 3; ++step) {
    CHECK(one.loop.step().mean.loss == 1);
    other.loop.step();
    one.loop.drain();
    other.loop.drain();
    CHECK(one.state() == other.state());
    CHECK(one.state() != before);
    before = one.state();
  }
}

TEST_CASE("a replayed update changes few values, and the others are equal in both versions") {
  const TinyJob tiny;
  const Job job = replayed(tiny, times(0, 0, 0));
  Training training(job, {.choices = {}, .versions = 2});
  const std::vector<float> first = training.state();
  for (int step = 0; step < 3; ++step) {
    training.loop.step();
    training.loop.drain();
    const std::vector<float> now = training.state();
    REQUIRE(now.size() == first.size());
    size_t changed = 0;
    for (size_t i = 0; i < now.size(); ++i) changed += now[i] != first[i] ? 1 : 0;
    CAPTURE(step);
    CHECK(changed > 0);
    CHECK(changed < first.size() / 2);
  }
}

TEST_CASE("missing, unnecessary and other networks' layer times are refused") {
  const TinyJob tiny;
  CHECK(error_of<ConfigError>([&] {
          tiny.load({"device.type=replay"});
        }).ends_with("/device/times: \"replay\" requires a file of layer times (--times FILE)"));
  const fs::path file = tiny.folder / "times.json";
  write_text(file, times(1, 1, 1).dump());
  CHECK(error_of<ConfigError>([&] {
          tiny.load({"device.times=" + file.string()});
        }).ends_with("/device/times: expected layer times only with \"replay\""));
  Json others = times(1, 1, 1);
  others["layers"].erase(2);
  CHECK(error_of<ConfigError>([&] {
          replayed(tiny, others);
        }).ends_with("/layers: the layer \"ip\" is missing; expected the times of this network"));
}

TEST_CASE(
    "replayed factors have the density of the times, and their gradient does not depend on it") {
  const test::FactoredCase layer{.json = {{"type", "linear"}, {"name", "ip"}, {"outputs", 400}},
                                 .input = {4, 1000}};
  const test::FactoredResults sparse = test::run_with_factors(layer, [](int, DataType) {
    return layers::replay::make_replay_backend({.layers = {{"ip", {.factor_density = 0.15}}}});
  });
  const test::FactoredResults dense = test::run_with_factors(
      layer, [](int, DataType) { return layers::replay::make_replay_backend({}); });
  CHECK(std::ranges::count(sparse.activations, 0.0F) == 6800);
  CHECK(std::ranges::count(sparse.deltas, 0.0F) == 2720);
  CHECK(std::ranges::count(dense.deltas, 0.0F) == 0);
  CHECK(sparse.parameter_gradients == dense.parameter_gradients);
}
