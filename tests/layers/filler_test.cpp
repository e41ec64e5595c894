#include "layers/filler.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "core/json.h"

using namespace poseidon;
using layers::Filler;
using layers::FillerType;

namespace {

std::vector<float> filled(const Json& json, const Shape& shape, uint64_t stream = 0) {
  Filler filler;
  read_fields(json, {"test.json", ""}, [&](Fields& f) { filler.describe(f); });
  std::vector<float> values(static_cast<size_t>(shape.count()));
  RandomStream random(5, RandomPurpose::kInitialization, stream, 0);
  filler.fill(values, shape, 1, random);
  return values;
}

}  // namespace

TEST_CASE("positive_unitball: the weights of each output are not negative and sum to 1") {
  const auto values = filled({{"type", "positive_unitball"}}, {6, 5, 3, 3});
  for (size_t first = 0; first < values.size(); first += 45) {
    double sum = 0;
    for (size_t i = first; i < first + 45; ++i) {
      CHECK(values[i] >= 0);
      sum += static_cast<double>(values[i]);
    }
    CHECK(sum == doctest::Approx(1).epsilon(1e-6));
  }
  CHECK(values[0] != values[1]);
  for (const float bias : filled({{"type", "positive_unitball"}}, {4})) CHECK(bias == 1);
}

TEST_CASE("bilinear: the filler produces the kernels of bilinear upsampling") {
  const auto two = filled({{"type", "bilinear"}}, {1, 1, 4, 4});
  const float row[4] = {0.25F, 0.75F, 0.75F, 0.25F};
  for (size_t y = 0; y < 4; ++y)
    for (size_t x = 0; x < 4; ++x) CHECK(two[4 * y + x] == row[y] * row[x]);
  const auto odd = filled({{"type", "bilinear"}}, {2, 1, 3, 3});
  const float half[3] = {0.5F, 1, 0.5F};
  for (size_t i = 0; i < 18; ++i) CHECK(odd[i] == half[i / 3 % 3] * half[i % 3]);
  // Upsampling by 3 keeps a constant image constant.
  const auto three = filled({{"type", "bilinear"}}, {1, 1, 5, 5});
  for (size_t phase = 0; phase < 3; ++phase) {
    float sum = 0;
    for (size_t x = phase; x < 5; x += 3) sum += three[10 + x];
    CHECK(sum == doctest::Approx(1));
  }
}

TEST_CASE("gaussian: sparse keeps the expected number of weights and zeros the others") {
  const Shape shape{50, 400};
  const auto all = filled({{"type", "gaussian"}, {"deviation", 0.5}}, shape);
  const auto some = filled({{"type", "gaussian"}, {"deviation", 0.5}, {"sparse", 5}}, shape);
  size_t left = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    CHECK((some[i] == 0 || some[i] == all[i]));
    left += some[i] != 0;
  }
  CHECK(left == doctest::Approx(2000).epsilon(0.08));
  CHECK(std::count(all.begin(), all.end(), 0.0F) == 0);
  const auto more = filled({{"type", "gaussian"}, {"deviation", 0.5}, {"sparse", 50}}, shape);
  CHECK(more == all);
}

TEST_CASE("fillers: bilinear refuses weights without square kernels") {
  CHECK(Filler::of(FillerType::kBilinear).problem_with({2, 3}) ==
        "\"bilinear\" requires a weight with square kernels, got 2x3");
  CHECK(Filler::of(FillerType::kBilinear).problem_with({2, 1, 3, 4}) ==
        "\"bilinear\" requires a weight with square kernels, got 2x1x3x4");
  CHECK(Filler::of(FillerType::kBilinear).problem_with({2, 1, 4, 4}).empty());
}
