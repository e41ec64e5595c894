// Measures how many samples per second one core prepares for a network. bench/loader.py compares
// the result with Pillow.
//
//   bench_loader photographs TAR_OR_FOLDER SECONDS
//       decode, random resized crop to 224, mirror, normalize
//   bench_loader small SECONDS
//       32x32 pixels: padded crop, mirror, normalize
//   bench_loader digits SECONDS
//       draw a digit, scale
//   bench_loader records FOLDER SECONDS
//       read samples of pixels in random order from a record set, scale; all samples have one shape

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "core/error.h"
#include "data/digits.h"
#include "data/image_source.h"
#include "data/order.h"
#include "data/random_dataset.h"
#include "data/record_set.h"
#include "data/transform.h"

namespace {

using namespace poseidon;
using namespace poseidon::data;

/// Calls `prepare(i)` for i = 0, 1, ... during `seconds` of processor time. Returns the calls per
/// second of processor time.
template <class Prepare>
double rate(double seconds, const Prepare& prepare) {
  const std::clock_t began = std::clock();
  const auto passed = [&] { return static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC; };
  uint64_t count = 0;
  while (passed() < seconds)
    for (int i = 0; i < 16; ++i) prepare(count++);
  return static_cast<double>(count) / passed();
}

TransformConfig photograph_transform() {
  TransformConfig config;
  config.random_resized_crop.present = true;
  config.random_resized_crop.size = {224, 224};
  config.mirror = true;
  config.mean = {123.675, 116.28, 103.53};
  config.std_dev = {58.395, 57.12, 57.375};
  return config;
}

double photographs(const std::string& path, double seconds) {
  const auto source = open_image_source(path, "", std::filesystem::temp_directory_path());
  std::vector<std::vector<std::byte>> files(source->entries().size());
  for (size_t i = 0; i < files.size(); ++i) source->read(source->entries()[i], files[i]);
  const Transform transform(photograph_transform(), {3, 224, 224}, Phase::kTrain, 1);
  const auto scratch = make_transform_scratch();
  std::vector<float> out(3 * 224 * 224);
  Sample sample;
  sample.form = SampleForm::kEncoded;
  return rate(seconds, [&](uint64_t i) {
    sample.bytes = files[i % files.size()];
    transform.apply(
        sample, {i / files.size(), i % files.size()}, [] { return "photograph"; }, out, *scratch);
  });
}

double from_dataset(const Dataset& dataset, const TransformConfig& config, double seconds,
                    bool shuffle = false) {
  const Shape& shape = dataset.description().shape;
  const Transform transform(config, shape, Phase::kTrain, 1, shape);
  const auto scratch = make_transform_scratch();
  std::vector<float> out(static_cast<size_t>(shape.count()));
  Sample sample;
  const uint64_t samples = static_cast<uint64_t>(dataset.size());
  const Order order(dataset.size(), 1, shuffle);
  return rate(seconds, [&](uint64_t i) {
    const int64_t index = order.at(static_cast<int64_t>(i)).index;
    dataset.read(index, sample);
    transform.apply(
        sample, {i / samples, i % samples}, [&] { return dataset.name(index); }, out, *scratch);
  });
}

/// Prepares pixels that are already in memory, like those of a record set.
double small(double seconds) {
  const auto random = make_random_pixels({3, 32, 32}, 10, 1, 1);
  Sample sample;
  random->read(0, sample);
  TransformConfig config;
  config.padding = 4;
  config.crop = {32, 32};
  config.mirror = true;
  config.mean = {125.3, 123.0, 113.9};
  config.std_dev = {63.0, 62.1, 66.7};
  const Transform transform(config, {3, 32, 32}, Phase::kTrain, 1);
  const auto scratch = make_transform_scratch();
  std::vector<float> out(3 * 32 * 32);
  return rate(seconds, [&](uint64_t i) {
    transform.apply(
        sample, {0, i}, [] { return "small"; }, out, *scratch);
  });
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() == 3 && arguments[0] == "photographs") {
    std::cout << photographs(arguments[1], std::atof(arguments[2].c_str())) << "\n";
    return 0;
  }
  if (arguments.size() == 2 && arguments[0] == "small") {
    std::cout << small(std::atof(arguments[1].c_str())) << "\n";
    return 0;
  }
  if (arguments.size() == 2 && arguments[0] == "digits") {
    TransformConfig config;
    config.scale = 1.0 / 256;
    std::cout << from_dataset(*make_digits(10000, "train", 1), config,
                              std::atof(arguments[1].c_str()))
              << "\n";
    return 0;
  }
  if (arguments.size() == 3 && arguments[0] == "records") {
    TransformConfig config;
    config.scale = 1.0 / 256;
    std::cout << from_dataset(*open_record_set(arguments[1]), config,
                              std::atof(arguments[2].c_str()), true)
              << "\n";
    return 0;
  }
  std::cerr << "usage: bench_loader photographs TAR_OR_FOLDER SECONDS | small SECONDS | digits "
               "SECONDS | records FOLDER SECONDS\n";
  return 2;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    return run({arguments + 1, arguments + count});
  } catch (const std::exception& error) {
    std::cerr << "bench_loader: " << error.what() << "\n";
    return 1;
  }
}
