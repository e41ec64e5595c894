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
