#include "data/order.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace poseidon::data;

namespace {

std::vector<int64_t> epoch_of(const Order& order, int64_t epoch) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < order.samples(); ++i) {
    const OrderedSample at = order.at(epoch * order.samples() + i);
    CHECK(at.epoch == epoch);
    indices.push_back(at.index);
  }
  return indices;
}

}  // namespace

TEST_CASE("order: each epoch contains every sample exactly once") {
  for (int64_t samples : {1, 2, 3, 4, 5, 15, 16, 17, 100, 1000, 4097})
    for (int64_t epoch : {0, 1, 7}) {
      std::vector<int64_t> indices = epoch_of(Order(samples, 3, true), epoch);
      std::sort(indices.begin(), indices.end());
      for (int64_t i = 0; i < samples; ++i) CHECK(indices[static_cast<size_t>(i)] == i);
    }
}

TEST_CASE("order: the permutation depends only on seed and epoch") {
  const auto first = epoch_of(Order(500, 1, true), 0);
  CHECK(first == epoch_of(Order(500, 1, true), 0));
  CHECK(first != epoch_of(Order(500, 1, true), 1));
  CHECK(first != epoch_of(Order(500, 2, true), 0));
  CHECK(epoch_of(Order(5, 1, false), 3) == std::vector<int64_t>{0, 1, 2, 3, 4});
}

TEST_CASE("order: shuffled positions are uniformly distributed") {
  // Counts for each tenth of an epoch the samples from the first tenth of the data set.
  constexpr int64_t kSamples = 1000, kEpochs = 200;
  std::vector<double> tenths(10);
  const Order order(kSamples, 11, true);
  double followers = 0;
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const auto indices = epoch_of(order, epoch);
    for (size_t i = 0; i < indices.size(); ++i) {
      if (indices[i] < kSamples / 10) tenths[i / 100] += 1;
      if (i > 0 && indices[i] == indices[i - 1] + 1) followers += 1;
    }
  }
  const double expected = kEpochs * 10.0;
  for (double count : tenths) CHECK(std::abs(count - expected) < 5 * std::sqrt(expected));
  CHECK(std::abs(followers / kEpochs - 1) < 0.5);  // as in a random permutation
}

TEST_CASE("order: a dataset of 2^40 samples needs no table") {
  const Order order(int64_t{1} << 40, 1, true);
  CHECK(order.at(12345).index < (int64_t{1} << 40));
  CHECK(order.at((int64_t{1} << 40) + 5).epoch == 1);
}
