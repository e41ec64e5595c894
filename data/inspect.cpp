#include "data/inspect.h"

#include <filesystem>

#include "data/image_decoder.h"
#include "data/pixel_reader.h"
#include "data/record_format.h"

namespace poseidon::data {

namespace fs = std::filesystem;

std::string guess_type(const std::string& path) {
  const auto holds = [&](const char* name) {
    std::error_code ignored;
    return fs::exists(fs::path(path) / name, ignored);
  };
  if (holds(kManifestName)) return "records";
  for (const char* name : {"train-images-idx3-ubyte", "train-images-idx3-ubyte.gz",
                           "t10k-images-idx3-ubyte", "t10k-images-idx3-ubyte.gz"})
    if (holds(name)) return "mnist";
  if (holds("data_batch_1.bin") || holds("test_batch.bin") || holds("cifar-10-batches-bin"))
    return "cifar10";
  if (holds("train.bin") || holds("cifar-100-binary")) return "cifar100";
  return "images";
}

Inspection inspect(const Dataset& dataset, Log& log, const PackProgress& progress) {
  Inspection result;
  result.samples_of_class.resize(dataset.classes().size());
  PixelReader reader(dataset);
  for (int64_t i = 0; i < dataset.size(); ++i) {
    try {
      reader.read(i);
      ++result.samples_of_class.at(static_cast<size_t>(reader.label()));
    } catch (const CorruptSample& error) {
      log.warning(error.what());
      ++result.corrupt;
    }
    progress(i + 1, dataset.size());
  }
  return result;
}

Shape shape_of_all(const Dataset& dataset, const PackProgress& progress) {
  ImageDecoder decoder;
  Sample sample;
  Shape shape;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    try {
      dataset.read(i, sample);
      const ImageHeader header = decoder.open(sample.bytes, dataset.name(i));
      const Shape own{header.channels, header.height, header.width};
      if (shape.rank() == 0) shape = own;
      if (shape != own) return {};
    } catch (const CorruptSample&) {
    }
    progress(i + 1, dataset.size());
  }
  return shape;
}

FloatImage mean_image(const Dataset& dataset, const PackProgress& progress) {
  PixelReader reader(dataset);
  FloatImage mean;
  std::vector<double> sums;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const Image& image = reader.read(i);
    if (i == 0) {
      if (image.channels != 1 && image.channels != 3)
        throw ConfigError(text(dataset.name(i), ": has ", image.channels,
                               " channels, expected 1 or 3 for a mean image"));
      mean.height = image.height;
      mean.width = image.width;
      mean.channels = image.channels;
      sums.resize(image.pixels.size());
    }
    if (image.height != mean.height || image.width != mean.width || image.channels != mean.channels)
      throw RunError(text(dataset.name(i), ": is ", image.channels, "x", image.height, "x",
                          image.width, ", the samples before it are ", mean.channels, "x",
                          mean.height, "x", mean.width,
                          ": a mean image needs samples of one size"));
    for (size_t k = 0; k < sums.size(); ++k) sums[k] += image.pixels[k];
    progress(i + 1, dataset.size());
  }
  for (double sum : sums)
    mean.values.push_back(static_cast<float>(sum / static_cast<double>(dataset.size())));
  return mean;
}

}  // namespace poseidon::data
