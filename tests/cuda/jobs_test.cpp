// Whole jobs on a GPU that the host plays: the same bits in every order that streams and marks
// allow.

#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/gpu/played_backend.h"
#include "tests/trainer/joined_workers.h"
#include "tests/trainer/made_training.h"
#include "tests/trainer/tiny_job.h"

using namespace poseidon;
using namespace poseidon::trainer;
using poseidon::test::make_played_backend;

namespace {

/// Everything that a few steps of a worker alone change.
std::vector<float> train_alone(layers::Backend backend, const Job& job, const Setup& setup,
                               int64_t staleness) {
  Training training(std::move(backend), job, setup.options(2), -1, staleness);
  for (int step = 0; step < 3; ++step) {
    training.loop.step();
    training.loop.settle_for_checkpoint();
  }
  training.loop.finish();
  training.loop.settle();
  return training.state();
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return largest;
}

}  // namespace

TEST_CASE("a training on a played GPU comes close to the CPU's") {
  const TinyJob tiny;
  const Job job = tiny.load();
  for (const Setup& setup : kSetups)
    CHECK(largest_difference(train_alone(make_played_backend({}), job, setup, 0),
                             train_alone(make_backend(job), job, setup, 0)) < 1e-4);
}

TEST_CASE("a training on a played GPU has the same bits in every order") {
  const TinyJob tiny;
  std::vector<Setup> setups = kSetups;
  setups.push_back({{"optimizer.type=lars", "cluster.logical_shards=2"}});
  for (const Setup& setup : setups)
    for (const int64_t staleness : {0, 2}) {
      const Job job = tiny.load(setup.overrides);
      const std::vector<float> plain = train_alone(make_played_backend({}), job, setup, staleness);
      for (uint64_t seed = 1; seed < 4; ++seed)
        CHECK(train_alone(make_played_backend({.seed = seed}), job, setup, staleness) == plain);
    }
}

namespace {

/// Batch norm with and without a shortcut, relu fused and not, two kinds of pooling, dropout.
constexpr const char* kSmallResNet = R"({
  "name": "small-resnet", "input": {"channels": 2, "height": 6, "width": 6},
  "layers": [
    {"name": "conv1", "type": "convolution", "outputs": 4, "kernel": 3, "padding": 1, "bias": false},
    {"name": "bn1", "type": "batch_norm"},
    {"name": "relu1", "type": "relu"},
    {"name": "pool1", "type": "pooling", "method": "max", "kernel": 2, "stride": 2},
    {"name": "conv2", "type": "convolution", "outputs": 4, "kernel": 3, "padding": 1, "bias": false},
    {"name": "bn2", "type": "batch_norm"},
    {"name": "sum", "type": "eltwise", "inputs": ["bn2", "pool1"]},
    {"name": "relu2", "type": "relu"},
    {"name": "pool2", "type": "pooling", "method": "average", "global": true},
    {"name": "drop", "type": "dropout", "probability": 0.3},
    {"name": "ip", "type": "linear", "outputs": 3},
    {"name": "loss", "type": "softmax_loss"}]})";

/// LeNet's layers, of fewer and smaller images.
constexpr const char* kSmallLenet = R"({
  "name": "small-lenet", "input": {"channels": 2, "height": 6, "width": 6},
  "layers": [
    {"name": "conv1", "type": "convolution", "outputs": 3, "kernel": 3},
    {"name": "pool1", "type": "pooling", "method": "max", "kernel": 2, "stride": 2},
    {"name": "conv2", "type": "convolution", "outputs": 5, "kernel": 2},
    {"name": "ip1", "type": "linear", "outputs": 10},
    {"name": "relu1", "type": "relu"},
    {"name": "ip2", "type": "linear", "outputs": 3},
    {"name": "loss", "type": "softmax_loss"}]})";

struct Cluster {
  const char* scheme;
  int workers, servers, staleness;
  int shards = 0;  ///< 0: one a worker
};
const std::vector<Cluster> kClusters{{"ps", 2, 1, 0},   {"ps", 4, 2, 1},  {"ps", 2, 1, 0, 5},
                                     {"sfb", 2, 1, 0},  {"sfb", 4, 1, 1}, {"auto", 4, 4, 0},
                                     {"auto", 2, 2, 1}, {"auto", 1, 0, 0}};

Job job_of(const TinyJob& tiny, const Cluster& cluster) {
  const auto number = [](int value) { return std::to_string(value); };
  return tiny.load({std::string("comm.scheme=") + cluster.scheme,
                    "cluster.workers=" + number(cluster.workers),
                    "cluster.servers=" + number(cluster.servers),
                    "cluster.logical_shards=" + number(cluster.shards),
                    "comm.staleness=" + number(cluster.staleness), "data.global_batch=20"});
}

/// The digests that all workers come to.
std::vector<int64_t> train_played(const Job& job, uint64_t seed) {
  uint64_t worker = 0;
  const auto digests = train_together(
      job, 3, [&] { return make_played_backend({.seed = seed == 0 ? 0 : seed * 100 + worker++}); });
  for (const std::vector<int64_t>& each : digests) CHECK(each == digests[0]);
  return digests[0];
}

}  // namespace

TEST_CASE("workers on played GPUs have the same bits in every order, by any scheme") {
  for (const char* network : {kTinyNetwork, kSmallResNet, kSmallLenet}) {
    const TinyJob tiny(network);
    for (const Cluster& cluster : kClusters) {
      CAPTURE(std::string(network).substr(12, 12));
      CAPTURE(std::string(cluster.scheme));
      CAPTURE(cluster.workers);
      CAPTURE(cluster.staleness);
      const Job job = job_of(tiny, cluster);
      const std::vector<int64_t> plain = train_played(job, 0);
      for (uint64_t seed = 1; seed < 4; ++seed) CHECK(train_played(job, seed) == plain);
    }
  }
}

namespace {

/// What is said when worker 0's GPU leaves out one of its waits; "" when nobody notices.
std::string without_wait(const Job& job, int64_t wait) {
  int worker = 0;
  return error_of<LogicError>([&] {
    train_together(
        job, 3, [&] { return make_played_backend({.dropped_wait = worker++ == 0 ? wait : -1}); });
  });
}

}  // namespace

TEST_CASE("a wait of streams that is left out is found, whichever it is") {
  const TinyJob tiny(kSmallResNet);
  for (const Cluster& cluster : {kClusters[0], kClusters[2], kClusters[3]}) {
    const Job job = job_of(tiny, cluster);
    std::atomic<int64_t> waits = 0;
    int worker = 0;
    train_together(
        job, 3, [&] { return make_played_backend({.waits = worker++ == 0 ? &waits : nullptr}); });
    CHECK(waits > 10);
    for (int64_t wait = 0; wait < waits; ++wait) {
      CAPTURE(wait);
      CHECK(without_wait(job, wait) != "");
    }
  }
}
