#include "data/dataset_config.h"

#include "core/error.h"
#include "data/cifar.h"
#include "data/digits.h"
#include "data/image_folder.h"
#include "data/mnist.h"
#include "data/pair_dataset.h"
#include "data/random_dataset.h"
#include "data/record_set.h"

namespace poseidon::data {

namespace {

void describe_path(Fields& fields, DatasetConfig& config, const char* doc) {
  fields.text("path", config.path, doc, Presence::kRequired);
}

void describe_split(Fields& fields, DatasetConfig& config) {
  int index = config.split == "test" ? 1 : 0;
  fields.choice("split", index, {"train", "test"}, "part of the dataset");
  config.split = index == 1 ? "test" : "train";
}

void describe_generated(Fields& fields, DatasetConfig& config) {
  fields.integer("samples", config.samples, between(1, 1e12), "number of samples");
  fields.integer("seed", config.seed, at_least(0), "seed of the generated samples");
}

void describe_random(Fields& fields, DatasetConfig& config) {
  fields.integer("channels", config.channels, between(1, 1024), "channels per sample");
  fields.integer("height", config.height, between(1, 16384), "rows");
  fields.integer("width", config.width, between(1, 16384), "columns");
  fields.integer("classes", config.class_count, between(1, 1e6), "number of classes");
  describe_auxiliary_inputs(
      fields, "extras", config.extras,
      "auxiliary inputs: float tensors of each sample in addition to its image");
  describe_generated(fields, config);
}

std::vector<Variant> variants(DatasetConfig& config) {
  const auto binary = [&](Fields& fields) {
    describe_path(fields, config, "folder of the dataset");
    describe_split(fields, config);
  };
  const auto folder = [&](const char* doc) {
    return [&config, doc](Fields& fields) { describe_path(fields, config, doc); };
  };
  const auto digits = [&](Fields& fields) {
    describe_split(fields, config);
    describe_generated(fields, config);
  };
  return {{"mnist", "MNIST in IDX files, optionally gzipped", binary},
          {"cifar10", "CIFAR-10, binary version", binary},
          {"cifar100", "CIFAR-100, binary version, fine labels", binary},
          {"images", "JPEG, PNG, BMP or PNM files in one folder per class",
           folder("folder of the dataset")},
          {"records", "record set of poseidon-data", folder("folder of the dataset")},
          {"digits", "generated 28x28 images of digits, without files", digits},
          {"random", "random values, for measurements",
           [&](Fields& fields) { describe_random(fields, config); }}};
}

}  // namespace

DatasetConfig DatasetConfig::for_testing() {
  DatasetConfig config;
  config.split = "test";
  config.shuffle = false;
  return config;
}

void DatasetConfig::describe(Fields& fields) {
  fields.variant("type", type, variants(*this), "dataset type");
  fields.boolean("pairs", pairs,
                 "combine two images as the channels of one sample, the same pairs for every seed; "
                 "label 1: same class, 0: different classes");
  fields.boolean("shuffle", shuffle, "new random order in each epoch; no effect in tests");
  fields.option("on_error", on_error, {"stop", "skip"},
                "corrupt sample (missing, damaged, too small): stop the run, or warn and use the "
                "next sample");
  fields.object(
      "transform", [&](Fields& inner) { transform.describe(inner); },
      "image preprocessing; a test set without it uses that of the training set",
      Presence::kOptional, &has_transform);
}

namespace {

std::unique_ptr<Dataset> open_single(const DatasetConfig& config) {
  if (config.type == "mnist") return open_mnist(config.path, config.split);
  if (config.type == "cifar10") return open_cifar10(config.path, config.split);
  if (config.type == "cifar100") return open_cifar100(config.path, config.split);
  if (config.type == "images") return open_image_folder(config.path);
  if (config.type == "records") return open_record_set(config.path);
  const uint64_t seed = static_cast<uint64_t>(config.seed);
  if (config.type == "digits") return make_digits(config.samples, config.split, seed);
  if (config.type == "random")
    return make_random({config.channels, config.height, config.width}, config.class_count,
                       config.samples, seed, config.extras);
  throw ConfigError(text("unknown dataset type \"", config.type, "\""));
}

}  // namespace

std::unique_ptr<Dataset> open_dataset(const DatasetConfig& config) {
  std::unique_ptr<Dataset> dataset = open_single(config);
  return config.pairs ? make_pairs(std::move(dataset)) : std::move(dataset);
}

std::string expand_variables(std::string_view path, const VariableLookup& lookup) {
  std::string out;
  size_t at = 0;
  for (;;) {
    const size_t open = path.find("${", at);
    out += path.substr(at, open - at);
    if (open == std::string_view::npos) return out;
    const size_t close = path.find('}', open);
    if (close == std::string_view::npos)
      throw ConfigError(text("\"", path, "\": \"${\" at byte ", open, " has no \"}\""));
    const std::string_view name = path.substr(open + 2, close - open - 2);
    const std::optional<std::string> value = lookup(name);
    if (!value) throw ConfigError(text("\"", path, "\": the variable ", name, " is not set"));
    out += *value;
    at = close + 1;
  }
}

}  // namespace poseidon::data
