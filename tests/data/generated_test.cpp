#include <doctest/doctest.h>

#include <cmath>

#include "data/digits.h"
#include "data/random_dataset.h"

using namespace poseidon;
using namespace poseidon::data;

namespace {

std::vector<std::byte> bytes_of(const Dataset& dataset, int64_t index) {
  Sample sample;
  dataset.read(index, sample);
  return {sample.bytes.begin(), sample.bytes.end()};
}

}  // namespace

TEST_CASE("digits: images depend only on seed, split and index") {
  const auto train = make_digits(100, "train", 1), again = make_digits(100, "train", 1);
  const auto test = make_digits(100, "test", 1), other = make_digits(100, "train", 2);
  CHECK(train->description().shape == Shape{1, 28, 28});
  CHECK(train->fingerprint() == again->fingerprint());
  CHECK(train->fingerprint() != test->fingerprint());
  for (int64_t i : {0, 17, 99}) {
    CHECK(bytes_of(*train, i) == bytes_of(*again, i));
    CHECK(bytes_of(*train, i) != bytes_of(*test, i));
    CHECK(bytes_of(*train, i) != bytes_of(*other, i));
  }
  CHECK(bytes_of(*train, 3) != bytes_of(*train, 13));
}

TEST_CASE("digits: the ink is in the center, and labels cycle through the classes") {
  const auto digits = make_digits(1000, "train", 1);
  Sample sample;
  double middle = 0, edge = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    digits->read(i, sample);
    CHECK(sample.label == i % 10);
    for (size_t y = 0; y < 28; ++y)
      for (size_t x = 0; x < 28; ++x) {
        const double value = std::to_integer<int>(sample.bytes[28 * y + x]);
        const bool inner = y >= 7 && y < 21 && x >= 7 && x < 21;
        const bool outer = y == 0 || y == 27 || x == 0 || x == 27;
        middle += inner ? value / 196 / 1000 : 0;
        edge += outer ? value / 108 / 1000 : 0;
      }
  }
  CHECK(middle > 40);
  CHECK(edge < 12);
}

TEST_CASE("random: mean 0, variance 1, labels of all classes") {
  const auto random = make_random({3, 8, 8}, 4, 200, 1);
  Sample sample;
  double sum = 0, squares = 0;
  std::vector<int> labels(4);
  for (int64_t i = 0; i < 200; ++i) {
    random->read(i, sample);
    ++labels.at(static_cast<size_t>(sample.label));
    const auto* values = reinterpret_cast<const float*>(sample.bytes.data());
    for (size_t k = 0; k < 192; ++k) {
      sum += static_cast<double>(values[k]);
      squares += static_cast<double>(values[k] * values[k]);
    }
  }
  const double count = 200 * 192;
  CHECK(std::abs(sum / count) < 0.03);
  CHECK(std::abs(squares / count - 1) < 0.03);
  for (int label : labels) CHECK(label > 25);
  CHECK_THROWS_AS(make_random({1024, 16384, 16384}, 4, 200, 1), ConfigError);
}
