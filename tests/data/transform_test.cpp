#include "data/transform.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/file.h"
#include "data/crop_plan.h"
#include "data/jitter.h"
#include "data/jpeg.h"
#include "data/pfm.h"
#include "data/resample.h"
#include "tests/data/made_files.h"

using namespace poseidon;
using namespace poseidon::data;

namespace {

const SampleName kName = [] { return std::string("img"); };

Sample sample_of(const Image& image) {
  Sample sample;
  sample.channels = image.channels;
  sample.height = image.height;
  sample.width = image.width;
  sample.bytes = std::as_bytes(std::span(image.pixels));
  return sample;
}

std::vector<float> apply(const TransformConfig& config, const Shape& output, const Sample& sample,
                         Phase phase = Phase::kTest, SampleKey key = {}, uint64_t seed = 1) {
  const Transform transform(config, output, phase, seed);
  std::vector<float> out(static_cast<size_t>(output.count()));
  const auto scratch = make_transform_scratch();
  transform.apply(sample, key, kName, out, *scratch);
  return out;
}

/// Reference: bilinear resampling with antialiasing, one output pixel at a time, by its definition.
double resampled(const Image& image, double step_y, double step_x, int64_t y, int64_t x,
                 int64_t c) {
  const auto weight = [](double distance, double reach) {
    return std::max(0.0, 1 - std::abs(distance) / reach);
  };
  const double reach_y = std::max(1.0, step_y), reach_x = std::max(1.0, step_x);
  const double center_y = (static_cast<double>(y) + 0.5) * step_y;
  const double center_x = (static_cast<double>(x) + 0.5) * step_x;
  double sum = 0, weights = 0;
  for (int64_t i = 0; i < image.height; ++i)
    for (int64_t j = 0; j < image.width; ++j) {
      const double w = weight(static_cast<double>(i) + 0.5 - center_y, reach_y) *
                       weight(static_cast<double>(j) + 0.5 - center_x, reach_x);
      sum += w * image.row(i)[j * image.channels + c];
      weights += w;
    }
  return sum / weights;
}

}  // namespace

TEST_CASE("transform: interleaved pixels become normalized channel planes") {
  const Image image = made::smooth_image(4, 5, 3);
  TransformConfig config;
  config.mean = {10, 20, 30};
  config.std_dev = {2, 4, 8};
  config.scale = 0.5;
  const auto out = apply(config, {3, 4, 5}, sample_of(image));
  for (int64_t c = 0; c < 3; ++c)
    for (int64_t y = 0; y < 4; ++y)
      for (int64_t x = 0; x < 5; ++x) {
        const double pixel = image.row(y)[3 * x + c];
        const double expected = (pixel - 10.0 * static_cast<double>(c + 1)) * 0.5 /
                                std::pow(2.0, static_cast<double>(c + 1));
        CHECK(static_cast<double>(out[static_cast<size_t>((c * 4 + y) * 5 + x)]) ==
              doctest::Approx(expected));
      }
}

TEST_CASE("transform: enlarged and reduced images match the definition of resizing") {
  const Image image = made::smooth_image(24, 18, 3, 3);
  for (const std::array<int64_t, 2>& size :
       {std::array<int64_t, 2>{40, 31}, std::array<int64_t, 2>{7, 5},
        std::array<int64_t, 2>{24, 9}}) {
    TransformConfig config;
    config.resize = size;
    const auto out = apply(config, {3, size[0], size[1]}, sample_of(image));
    for (int64_t c = 0; c < 3; ++c)
      for (int64_t y = 0; y < size[0]; ++y)
        for (int64_t x = 0; x < size[1]; ++x) {
          const double expected = resampled(image, 24.0 / static_cast<double>(size[0]),
                                            18.0 / static_cast<double>(size[1]), y, x, c);
          const float got = out[static_cast<size_t>((c * size[0] + y) * size[1] + x)];
          CHECK(std::abs(static_cast<double>(got) - expected) < 0.01);
        }
  }
}

TEST_CASE("transform: resize with center crop equals the center of the resized image") {
  const Image image = made::smooth_image(30, 40, 3, 5);
  TransformConfig whole, cropped;
  whole.resize_short = 20;  // 20 x 27
  cropped.resize_short = 20;
  cropped.crop = {16, 16};
  const auto all = apply(whole, {3, 20, 27}, sample_of(image));
  const auto part = apply(cropped, {3, 16, 16}, sample_of(image));
  for (size_t c = 0; c < 3; ++c)
    for (size_t y = 0; y < 16; ++y)
      for (size_t x = 0; x < 16; ++x)
        CHECK(static_cast<double>(part[(c * 16 + y) * 16 + x]) ==
              doctest::Approx(static_cast<double>(all[(c * 20 + y + 2) * 27 + x + 5])));
}

TEST_CASE("transform: random crops with padding and mirror cover all possible crops") {
  const Image image = made::smooth_image(4, 4, 1);
  TransformConfig config;
  config.padding = 1;
  config.crop = {4, 4};
  config.mirror = true;
  config.mean = {10};
  std::set<std::array<int64_t, 3>> seen;
  for (uint64_t index = 0; index < 300; ++index) {
    const auto out = apply(config, {1, 4, 4}, sample_of(image), Phase::kTrain, {0, index});
    int matches = 0;
    for (int64_t top = -1; top <= 1; ++top)
      for (int64_t left = -1; left <= 1; ++left)
        for (int64_t mirror = 0; mirror < 2; ++mirror) {
          bool same = true;
          for (int64_t y = 0; y < 4; ++y)
            for (int64_t x = 0; x < 4; ++x) {
              const int64_t from_y = top + y, from_x = left + (mirror != 0 ? 3 - x : x);
              const bool inside = from_y >= 0 && from_y < 4 && from_x >= 0 && from_x < 4;
              const float expected =
                  inside ? static_cast<float>(image.row(from_y)[from_x]) - 10 : -10;
              same = same && out[static_cast<size_t>(4 * y + x)] == expected;
            }
          if (same) seen.insert({top, left, mirror});
          matches += same ? 1 : 0;
        }
    CHECK(matches >= 1);
  }
  CHECK(seen.size() == 18);
}

TEST_CASE("transform: randomness depends only on seed, epoch and sample") {
  const Image image = made::smooth_image(40, 50, 3);
  TransformConfig config;
  config.random_resized_crop.present = true;
  config.random_resized_crop.size = {12, 12};
  config.mirror = true;
  config.jitter = {true, 0.4, 0.4, 0.4, 0.1};
  const auto run = [&](SampleKey key, uint64_t seed, Phase phase = Phase::kTrain) {
    return apply(config, {3, 12, 12}, sample_of(image), phase, key, seed);
  };
  const auto first = run({3, 7}, 1);
  CHECK(first == run({3, 7}, 1));
  CHECK(first != run({4, 7}, 1));
  CHECK(first != run({3, 8}, 1));
  CHECK(first != run({3, 7}, 2));
  CHECK(run({3, 7}, 1, Phase::kTest) == run({4, 8}, 2, Phase::kTest));
}

TEST_CASE("crop plan: random crops respect area and aspect limits and reach all rows") {
  TransformConfig config;
  config.random_resized_crop.present = true;
  config.random_resized_crop.size = {10, 10};
  double sum_area = 0;
  int64_t top = 1000, bottom = 0;
  for (uint64_t i = 0; i < 2000; ++i) {
    RandomStream random(1, RandomPurpose::kAugmentation, 0, i);
    const Box box = plan_crop(config, 300, 400, &random, kName).used;
    const double area = static_cast<double>(box.height * box.width) / (300.0 * 400.0);
    const double aspect = static_cast<double>(box.width) / static_cast<double>(box.height);
    CHECK(area > 0.07);
    CHECK(area <= 1.0);
    CHECK(aspect > 0.74);
    CHECK(aspect < 1.35);
    CHECK(box.top + box.height <= 300);
    CHECK(box.left + box.width <= 400);
    sum_area += area;
    top = std::min(top, box.top);
    bottom = std::max(bottom, box.top + box.height);
  }
  CHECK(std::abs(sum_area / 2000 - 0.44) <
        0.04);  // large crops with an extreme aspect ratio do not fit
  CHECK(top == 0);
  CHECK(bottom == 300);
  RandomStream random(1, RandomPurpose::kAugmentation, 0, 0);
  CHECK(plan_crop(config, 10, 1000, &random, kName).used == Box{0, 493, 10, 13});
  CHECK(plan_crop(config, 300, 400, nullptr, kName).used == Box{18, 68, 263, 263});
}

TEST_CASE("transform: a JPEG file and its pixels produce similar results") {
  const Image image = made::smooth_image(260, 340, 3, 9);
  const auto bytes = encode_jpeg(image, 95);
  Sample encoded;
  encoded.form = SampleForm::kEncoded;
  encoded.bytes = bytes;
  TransformConfig config;
  config.random_resized_crop.present = true;
  config.random_resized_crop.size = {48, 48};
  config.mirror = true;
  for (uint64_t index = 0; index < 20; ++index) {
    const auto from_jpeg = apply(config, {3, 48, 48}, encoded, Phase::kTrain, {0, index});
    const auto from_pixels =
        apply(config, {3, 48, 48}, sample_of(image), Phase::kTrain, {0, index});
    double difference = 0;
    for (size_t i = 0; i < from_jpeg.size(); ++i)
      difference += std::abs(static_cast<double>(from_jpeg[i] - from_pixels[i]));
    CHECK(difference / static_cast<double>(from_jpeg.size()) < 2.5);
  }
  TransformConfig crop;
  crop.crop = {100, 100};
  CHECK(apply(crop, {1, 100, 100}, encoded).size() == 10000);
}

TEST_CASE("transform: gray and color images are converted to the network's channels") {
  const Image grey = made::smooth_image(3, 3, 1);
  const auto colour = apply({}, {3, 3, 3}, sample_of(grey));
  for (size_t i = 0; i < 9; ++i) {
    CHECK(colour[i] == static_cast<float>(grey.pixels[i]));
    CHECK(colour[i + 9] == colour[i]);
    CHECK(colour[i + 18] == colour[i]);
  }
  const Image image = made::smooth_image(3, 3, 3);
  const auto luma = apply({}, {1, 3, 3}, sample_of(image));
  CHECK(
      std::abs(static_cast<double>(luma[4]) - (0.299 * image.pixels[12] + 0.587 * image.pixels[13] +
                                               0.114 * image.pixels[14])) <= 0.51);
}

TEST_CASE("transform: float samples are cropped and scaled, but not resized") {
  std::vector<float> values;
  for (int i = 0; i < 2 * 3 * 5; ++i) values.push_back(static_cast<float>(i));
  Sample sample;
  sample.form = SampleForm::kFloats;
  sample.channels = 5;
  sample.height = 2;
  sample.width = 3;
  sample.bytes = std::as_bytes(std::span(values));
  TransformConfig config;
  config.scale = 2;
  config.crop = {2, 1};
  const auto out = apply(config, {5, 2, 1}, sample);
  CHECK(out == std::vector<float>{10, 40, 12, 42, 14, 44, 16, 46, 18, 48});
  config.resize_short = 4;
  CHECK_THROWS_AS(apply(config, {5, 2, 1}, sample), ConfigError);
}

TEST_CASE("transform: the mean image is subtracted at the crop's position before mirroring") {
  const made::Folder folder;
  const Image image = made::smooth_image(4, 6, 3);
  FloatImage mean{4, 6, 3, {}};
  for (uint8_t pixel : image.pixels) mean.values.push_back(static_cast<float>(pixel) - 1);
  const std::string path = (folder / "mean.pfm").string();
  made::write(path, encode_pfm(mean));
  TransformConfig config;
  config.mean_image = path;
  config.crop = {2, 3};
  config.mirror = true;
  for (uint64_t index = 0; index < 8; ++index)
    for (float value : apply(config, {3, 2, 3}, sample_of(image), Phase::kTrain, {0, index}))
      CHECK(value == 1.0f);
  config.crop = {0, 0};
  config.resize = {5, 5};
  CHECK_THROWS_WITH_AS(apply(config, {3, 5, 5}, sample_of(image)),
                       doctest::Contains("the mean image is 4x6, img is 5x5"), ConfigError);
}

TEST_CASE("pfm: an image survives a round trip, and damaged files are refused") {
  const FloatImage image{2, 3, 1, {1, 2, 3, 4, 5, 6.5f}};
  const auto bytes = encode_pfm(image);
  const FloatImage back = parse_pfm(bytes, "f");
  CHECK(back.values == image.values);
  CHECK(back.height == 2);
  CHECK_THROWS_WITH_AS(parse_pfm(std::span(bytes).first(bytes.size() - 1), "f"),
                       "f: expected 24 bytes after the header, got 23", RunError);
  CHECK_THROWS_AS(parse_pfm(made::bytes_of("P5\n1 1\n"), "f"), RunError);
  CHECK_THROWS_AS(parse_pfm(made::bytes_of("PF\n99999999 99999999\n-1\n"), "f"), RunError);
}

TEST_CASE("jitter: brightness, contrast and saturation match their definitions") {
  std::vector<float> pixels{10, 20, 30, 200, 100, 50};
  jitter(pixels, 3, {.brightness = 2, .contrast = 1, .saturation = 1});
  CHECK(pixels == std::vector<float>{20, 40, 60, 255, 200, 100});
  std::vector<float> grey{50, 150};
  jitter(grey, 1, {.brightness = 1, .contrast = 0.5f, .saturation = 3});
  CHECK(grey == std::vector<float>{75, 125});
  std::vector<float> colour{100, 100, 100, 200, 0, 0};
  jitter(colour, 3, {.brightness = 1, .contrast = 1, .saturation = 0});
  CHECK(static_cast<double>(colour[0]) == doctest::Approx(100));
  CHECK(static_cast<double>(colour[3]) == doctest::Approx(0.299 * 200));
  CHECK(colour[3] == colour[5]);
}

namespace {

/// Reference: the RGB color, 0 to 1, for hue (1 is a full turn), saturation and value.
std::array<double, 3> colour_of(double hue, double saturation, double value) {
  std::array<double, 3> rgb{};
  for (int c = 0; c < 3; ++c) {
    // Distance from red, green or blue on the color circle, in sixths of a turn.
    double away = std::abs(hue * 6 - 2 * c);
    away = std::min(away, 6 - away);
    rgb[static_cast<size_t>(c)] = value * (1 - saturation * std::clamp(away - 1, 0.0, 1.0));
  }
  return rgb;
}

}  // namespace

TEST_CASE("jitter: a hue shift keeps value and saturation, and does not change gray") {
  for (const double turn : {-0.5, -0.3, -0.01, 0.07, 0.25, 0.5})
    for (int from = 0; from < 24; ++from) {
      const double hue = from / 24.0, turned = hue + turn - std::floor(hue + turn);
      const auto before = colour_of(hue, 0.7, 0.9), expected = colour_of(turned, 0.7, 0.9);
      std::vector<float> pixels{7, 7, 7};
      for (const double value : before) pixels.push_back(static_cast<float>(255 * value));
      jitter(pixels, 3, {.hue = static_cast<float>(turn)});
      CHECK(pixels[0] == 7);
      CHECK(pixels[2] == 7);
      for (size_t c = 0; c < 3; ++c)
        CHECK(std::abs(static_cast<double>(pixels[3 + c]) - 255 * expected[c]) < 1e-3);
    }
}

TEST_CASE("jitter: steps run in the given order") {
  using enum JitterStep;
  const JitterFactors factors{.brightness = 2, .contrast = 0.5f};
  std::vector<float> pixels{50, 150};
  jitter(pixels, 1, factors);
  CHECK(pixels == std::vector<float>{138.75f, 216.25f});  // 100 and 255 before the contrast
  JitterFactors other = factors;
  other.order = {kHue, kContrast, kSaturation, kBrightness};
  pixels = {50, 150};
  jitter(pixels, 1, other);
  CHECK(pixels == std::vector<float>{150, 250});
}

TEST_CASE("transform: the order of jitter steps differs between samples") {
  // With brightness and contrast only, the two orders give different results for these two pixels.
  const Image image{1, 2, 1, {100, 200}};
  TransformConfig config;
  config.jitter = {.present = true, .brightness = 0.5, .contrast = 0.5};
  std::set<bool> contrast_first;
  for (uint64_t index = 0; index < 40; ++index) {
    RandomStream random(1, RandomPurpose::kAugmentation, 0, index);
    plan_crop(config, 1, 2, &random, kName);
    const float brightness = random.next_uniform(0.5f, 1.5f);
    const float contrast = random.next_uniform(0.5f, 1.5f);
    const auto out = apply(config, {1, 1, 2}, sample_of(image), Phase::kTrain, {0, index});
    std::array<std::vector<float>, 2> by_order{std::vector<float>{100, 200},
                                               std::vector<float>{100, 200}};
    jitter(by_order[0], 1, {.brightness = brightness, .contrast = contrast});
    jitter(by_order[1], 1, {.contrast = contrast});
    jitter(by_order[1], 1, {.brightness = brightness});
    CHECK((out == by_order[0] || out == by_order[1]));
    if (by_order[0] != by_order[1]) contrast_first.insert(out == by_order[1]);
  }
  CHECK(contrast_first.size() == 2);
}

TEST_CASE("transform: conflicting options and mismatched shapes are refused") {
  const auto make = [](const TransformConfig& config, const Shape& source = {}) {
    Transform(config, {3, 24, 24}, Phase::kTrain, 1, source);
  };
  TransformConfig config;
  CHECK_THROWS_WITH_AS(
      make(config, {3, 32, 32}),
      doctest::Contains("dataset: is 32x32 after the transform, the network's input is 24x24"),
      ConfigError);
  config.crop = {28, 28};
  CHECK_THROWS_WITH_AS(make(config), "transform: the output is 28x28, the network's input is 24x24",
                       ConfigError);
  config.crop = {24, 24};
  CHECK_NOTHROW(make(config, {1, 32, 32}));
  CHECK_THROWS_AS(make(config, {4, 32, 32}), ConfigError);
  CHECK_THROWS_WITH_AS(make(config, {3, 20, 32}),
                       doctest::Contains("crop of 24x24 does not fit the image of 20x32"),
                       ConfigError);
  config.padding = 1;
  CHECK_THROWS_WITH_AS(
      make(config, {3, 20, 32}),
      doctest::Contains("crop of 24x24 does not fit the image of 22x34 with its padding; set"),
      ConfigError);
  config.padding = 0;
  config.mean = {1, 2};
  CHECK_THROWS_WITH_AS(make(config),
                       "transform: \"mean\": expected 1 or 3 values, one for each channel, got 2",
                       ConfigError);
  CHECK_THROWS_WITH_AS(Transform(config, Shape{1, 24, 24}, Phase::kTrain, 1),
                       "transform: \"mean\": expected 1 value, as the network's images are gray, "
                       "got 2",
                       ConfigError);
  config.mean = {};
  config.resize_short = 10;
  config.resize = {30, 30};
  CHECK_THROWS_WITH_AS(
      make(config), "transform: \"resize\" and \"resize_short\" exclude each other", ConfigError);
  config = {};
  config.mix.present = true;
  CHECK_THROWS_WITH_AS(make(config), "transform: \"mix\": expected \"mixup\" or \"cutmix\" above 0",
                       ConfigError);
}

namespace {

/// Applies the remaining normalization to pixels.
std::vector<float> normalized_planes(const std::vector<uint8_t>& pixels,
                                     const Transform& transform) {
  const Normalization& left = transform.normalization();
  const auto channels = static_cast<size_t>(transform.output()[0]);
  const size_t area = pixels.size() / channels;
  std::vector<float> values;
  for (size_t c = 0; c < channels; ++c)
    for (size_t p = 0; p < area; ++p)
      values.push_back((static_cast<float>(pixels[p * channels + c]) - left.mean[c]) *
                       left.factor[c]);
  return values;
}

/// Checks that a sample as pixels and as values are equal, for any random choices.
void check_forms(const TransformConfig& config, const Shape& output, const Sample& sample) {
  for (const Phase phase : {Phase::kTrain, Phase::kTest})
    for (uint64_t epoch = 0; epoch < 8; ++epoch) {
      const Transform transform(config, output, phase, 1);
      REQUIRE(transform.keeps_pixels());
      std::vector<uint8_t> pixels(static_cast<size_t>(output.count()), 77);
      const auto scratch = make_transform_scratch();
      transform.apply(sample, {epoch, 3}, kName, {.values = {}, .pixels = pixels}, *scratch);
      CHECK(normalized_planes(pixels, transform) ==
            apply(config, output, sample, phase, {epoch, 3}));
    }
}

}  // namespace

TEST_CASE("transform: deferred normalization of pixels produces the same bits") {
  TransformConfig config;
  config.mirror = true;
  config.mean = {123.675, 116.28, 103.53};
  config.std_dev = {58.395, 57.12, 57.375};
  const Image image = made::smooth_image(9, 11, 3);
  check_forms(config, {3, 9, 11}, sample_of(image));
  config.crop = {5, 6};
  check_forms(config, {3, 5, 6}, sample_of(image));
  config.padding = 4;
  check_forms(config, {3, 5, 6}, sample_of(image));
  config.crop = {17, 19};
  check_forms(config, {3, 17, 19}, sample_of(image));
  config.crop = {1, 1};
  config.padding = 30;
  check_forms(config, {3, 1, 1}, sample_of(image));
}

TEST_CASE("transform: deferred normalization also fits other channel counts and image files") {
  TransformConfig config;
  config.mirror = true;
  config.crop = {8, 8};
  config.scale = 1.0 / 256;
  const Image grey = made::smooth_image(9, 11, 1), colour = made::smooth_image(9, 11, 3);
  check_forms(config, {1, 8, 8}, sample_of(grey));
  check_forms(config, {3, 8, 8}, sample_of(grey));
  check_forms(config, {1, 8, 8}, sample_of(colour));
  const std::vector<std::byte> file = made::pnm(colour);
  Sample encoded;
  encoded.form = SampleForm::kEncoded;
  encoded.bytes = file;
  check_forms(config, {3, 8, 8}, encoded);
  check_forms(config, {1, 8, 8}, encoded);
}

TEST_CASE("transform: resize, random crop, jitter and mixup produce floats instead of pixels") {
  const auto keeps = [](const auto& change, Phase phase = Phase::kTrain) {
    TransformConfig config;
    change(config);
    return Transform(config, {3, 8, 8}, phase, 1).keeps_pixels();
  };
  CHECK(keeps([](TransformConfig&) {}));
  CHECK_FALSE(keeps([](TransformConfig& config) { config.resize = {8, 8}; }));
  CHECK_FALSE(keeps([](TransformConfig& config) { config.resize_short = 8; }));
  const auto random_crop = [](TransformConfig& config) {
    config.random_resized_crop.present = true;
    config.random_resized_crop.size = {8, 8};
  };
  CHECK_FALSE(keeps(random_crop));
  CHECK_FALSE(keeps(random_crop, Phase::kTest));
  const auto jittered = [](TransformConfig& config) { config.jitter.present = true; };
  CHECK_FALSE(keeps(jittered));
  const auto mixed = [](TransformConfig& config) {
    config.mix.present = true;
    config.mix.cutmix = 1;
  };
  CHECK_FALSE(keeps(mixed));
  CHECK(keeps(mixed, Phase::kTest));
  CHECK(keeps(jittered, Phase::kTest));
}
