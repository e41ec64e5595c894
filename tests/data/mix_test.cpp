#include "data/mix.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace poseidon;
using namespace poseidon::data;

namespace {

MixConfig config_of(double mixup, double cutmix, double probability = 1) {
  return {.present = true, .mixup = mixup, .cutmix = cutmix, .probability = probability};
}

Mixer mixer_of(const MixConfig& config, int64_t samples = 100, uint64_t seed = 3) {
  return {config, {3, 20, 30}, seed, samples};
}

/// The decisions of 4,000 samples.
std::vector<MixDecision> drawn(const MixConfig& config) {
  const Mixer mixer = mixer_of(config);
  std::vector<MixDecision> decisions;
  for (uint64_t epoch = 0; epoch < 40; ++epoch)
    for (uint64_t index = 0; index < 100; ++index)
      if (const auto decision = mixer.draw({epoch, index})) decisions.push_back(*decision);
  return decisions;
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

}  // namespace

TEST_CASE("mix: lambda has the mean and the variance of Beta(a, a)") {
  for (const double a : {0.01, 0.2, 1.0, 5.0, 100.0}) {
    CAPTURE(a);
    std::vector<double> shares, squares;
    for (const MixDecision& decision : drawn(config_of(a, 0))) {
      CHECK_FALSE(decision.part);
      CHECK(decision.lambda >= 0);
      CHECK(decision.lambda <= 1);
      shares.push_back(decision.lambda);
      squares.push_back((decision.lambda - 0.5) * (decision.lambda - 0.5));
    }
    const double variance = 1 / (4 * (2 * a + 1));
    CHECK(shares.size() == 4000);
    CHECK(std::abs(mean_of(shares) - 0.5) < 0.03);
    CHECK(std::abs(mean_of(squares) / variance - 1) < 0.1);
  }
}

TEST_CASE("mix: the decision depends only on seed, epoch and sample") {
  const MixConfig config = config_of(0.4, 1);
  const auto same = [](const MixDecision& a, const MixDecision& b) {
    return a.second_sample == b.second_sample && a.lambda == b.lambda && a.part == b.part;
  };
  const MixDecision one = mixer_of(config).draw({2, 7}).value();
  CHECK(same(mixer_of(config).draw({2, 7}).value(), one));
  CHECK_FALSE(same(mixer_of(config).draw({3, 7}).value(), one));
  CHECK_FALSE(same(mixer_of(config).draw({2, 8}).value(), one));
  CHECK_FALSE(same(mixer_of(config, 100, 4).draw({2, 7}).value(), one));
}

TEST_CASE("mix: the second sample is drawn uniformly from all other samples") {
  const Mixer mixer = mixer_of(config_of(1, 0), 5);
  for (uint64_t index = 0; index < 5; ++index) {
    std::vector<int> times(5);
    for (uint64_t epoch = 0; epoch < 400; ++epoch)
      ++times[static_cast<size_t>(mixer.draw({epoch, index})->second_sample)];
    for (size_t other = 0; other < 5; ++other) {
      if (other == index)
        CHECK(times[other] == 0);
      else
        CHECK(std::abs(times[other] - 100) < 40);
    }
  }
  CHECK_FALSE(mixer_of(config_of(1, 0), 1).draw({0, 0}));
}

TEST_CASE("mix: samples are mixed with the set probability, half by mixup and half by cutmix") {
  CHECK(drawn(config_of(1, 1, 0)).empty());
  CHECK(std::abs(std::ssize(drawn(config_of(1, 1, 0.3))) - 1200) < 100);
  const std::vector<MixDecision> both = drawn(config_of(1, 1));
  const auto cut =
      std::ranges::count_if(both, [](const MixDecision& m) { return m.part.has_value(); });
  CHECK(std::abs(cut - 2000) < 150);
  for (const MixDecision& decision : drawn(config_of(0, 1))) CHECK(decision.part.has_value());
}

TEST_CASE("mix: the cutmix box lies in the image, and lambda is its fraction of the area") {
  double largest = 0;
  for (const MixDecision& decision : drawn(config_of(0, 1))) {
    const Box& part = *decision.part;
    REQUIRE(part.top >= 0);
    REQUIRE(part.left >= 0);
    REQUIRE(part.height >= 0);
    REQUIRE(part.width >= 0);
    REQUIRE(part.top + part.height <= 20);
    REQUIRE(part.left + part.width <= 30);
    CHECK(decision.lambda == static_cast<double>(part.height * part.width) / 600);
    largest = std::max(largest, decision.lambda);
  }
  CHECK(largest > 0.8);
}

TEST_CASE("mix: mixup averages values, cutmix copies the box of the second sample") {
  std::vector<float> own(2 * 3 * 4), other(own.size());
  for (size_t i = 0; i < own.size(); ++i) {
    own[i] = static_cast<float>(i);
    other[i] = 100 - 3 * static_cast<float>(i);
  }
  const Mixer mixer(config_of(1, 1), {2, 3, 4}, 1, 9);
  std::vector<float> mixed = own;
  mixer.mix({.second_sample = 2, .lambda = 0.25}, other, mixed);
  for (size_t i = 0; i < own.size(); ++i) CHECK(mixed[i] == 0.75F * own[i] + 0.25F * other[i]);
  mixed = own;
  mixer.mix({.second_sample = 2, .lambda = 0.5, .part = Box{1, 2, 2, 1}}, other, mixed);
  for (size_t i = 0; i < own.size(); ++i) {
    const bool in_part = i / 4 % 3 >= 1 && i % 4 == 2;
    CHECK(mixed[i] == (in_part ? other[i] : own[i]));
  }
}
