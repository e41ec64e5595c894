#include "data/pair_dataset.h"

#include <doctest/doctest.h>

#include <cstring>

#include "data/digits.h"
#include "data/image_folder.h"
#include "data/random_dataset.h"
#include "tests/data/made_files.h"

using namespace poseidon;
using namespace poseidon::data;

namespace {

Sample sample_of(const Dataset& dataset, int64_t index) {
  Sample sample;
  dataset.read(index, sample);
  return sample;
}

/// One of the two images of a pair. Their pixels alternate. `half`: 0 or 1, the image.
/// second.
std::vector<std::byte> half_of(const Sample& pair, size_t half, size_t bytes_per_pixel) {
  std::vector<std::byte> out;
  for (size_t i = half * bytes_per_pixel; i < pair.bytes.size(); i += 2 * bytes_per_pixel)
    out.insert(out.end(), pair.bytes.begin() + static_cast<ptrdiff_t>(i),
               pair.bytes.begin() + static_cast<ptrdiff_t>(i + bytes_per_pixel));
  return out;
}

bool holds(const Sample& sample, const std::vector<std::byte>& bytes) {
  return sample.bytes.size() == bytes.size() &&
         std::memcmp(sample.bytes.data(), bytes.data(), bytes.size()) == 0;
}

}  // namespace

TEST_CASE("pairs: a pair holds two samples, and its label states if their classes are equal") {
  const auto digits = make_digits(200, "train", 1);
  const auto pairs = make_pairs(make_digits(200, "train", 1));
  CHECK(pairs->description().shape == Shape{2, 28, 28});
  CHECK(pairs->classes() == std::vector<std::string>{"different", "alike"});
  CHECK(pairs->size() == 200);
  CHECK(pairs->fingerprint() != digits->fingerprint());
  int alike = 0;
  for (int64_t i = 0; i < 200; ++i) {
    const Sample pair = sample_of(*pairs, i), again = sample_of(*pairs, i);
    CHECK(holds(pair, again.storage));
    CHECK(holds(sample_of(*digits, i), half_of(pair, 0, 1)));
    const std::vector<std::byte> second = half_of(pair, 1, 1);
    bool found = false;
    for (int64_t k = 0; k < 200 && !found; ++k)
      found =
          k != i && holds(sample_of(*digits, k), second) && (k % 10 == i % 10) == (pair.label == 1);
    CHECK(found);
    alike += pair.label;
  }
  CHECK(alike > 75);
  CHECK(alike < 125);
  CHECK(pairs->name(3).starts_with(digits->name(3) + " and "));
}

TEST_CASE("pairs: float samples with several channels and a single class can be paired") {
  const auto random = make_random({3, 4, 5}, 1, 7, 1);
  const auto pairs = make_pairs(make_random({3, 4, 5}, 1, 7, 1));
  CHECK(pairs->description().shape == Shape{6, 4, 5});
  for (int64_t i = 0; i < 7; ++i) {
    const Sample pair = sample_of(*pairs, i);
    CHECK(pair.form == SampleForm::kFloats);
    CHECK(pair.channels == 6);
    CHECK(pair.label == 1);
    CHECK(holds(sample_of(*random, i), half_of(pair, 0, 3 * sizeof(float))));
  }
}

TEST_CASE("pairs: images that may differ in size are refused") {
  const made::Folder folder;
  std::filesystem::create_directory(folder / "a");
  made::write(folder / "a" / "1.ppm", made::bytes_of("P6 1 1 255\nabc"));
  CHECK_THROWS_WITH_AS(make_pairs(open_image_folder(folder.text())),
                       doctest::Contains("\"pairs\" requires images of one size"), ConfigError);
}
