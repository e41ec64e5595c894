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
  fields.choice("split", index, {"train", "test"}, "which part of the dataset");
  config.split = index == 1 ? "test" : "train";
}

void describe_generated(Fields& fields, DatasetConfig& config) {
  fields.integer("samples", config.samples, between(1, 1e12), "number of samples");
  fields.integer("seed", config.seed, at_least(0), "which samples are generated");
}

void describe_random(Fields& fields, DatasetConfig& config) {
  fields.integer("channels", config.channels, between(1, 1024), "channels of a sample");
  fields.integer("height", config.height, between(1, 16384), "rows of a sample");
  fields.integer("width", config.width, between(1, 16384), "columns of a sample");
  fields.integer("classes", config.class_count, between(1, 1e6), "number of classes");
  describe_extras(fields, "extras", config.extras,
                  "tensors of floats that a sample has beside its image, for the further inputs of "
                  "a network");
  describe_generated(fields, config);
}

std::vector<Variant> variants(DatasetConfig& config) {
  const auto binary = [&](Fields& fields) {
    describe_path(fields, config, "folder that holds the dataset's files");
    describe_split(fields, config);
  };
  const auto folder = [&](const char* doc) {
    return [&config, doc](Fields& fields) { describe_path(fields, config, doc); };
  };
  const auto digits = [&](Fields& fields) {
    describe_split(fields, config);
    describe_generated(fields, config);
  };
  return {
      {"mnist", "handwritten digits in IDX files, gzipped or not", binary},
      {"cifar10", "the binary version of CIFAR-10", binary},
      {"cifar100", "the binary version of CIFAR-100, fine labels", binary},
      {"images", "a folder per class of JPEG, PNG, BMP or PNM files",
       folder("folder that holds a folder per class")},
      {"records", "a record set made by poseidon-data pack", folder("folder of the record set")},
      {"digits", "generated 28x28 images of digits; no files needed", digits},
      {"random", "generated values without meaning, for measurements",
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
  fields.variant("type", type, variants(*this), "which kind of dataset");
  fields.boolean("pairs", pairs,
                 "each sample is two images, the second one in channels of its own; its label is "
                 "1 where both are of one class, else 0");
  fields.boolean("shuffle", shuffle, "a new order each epoch; tests always go in order");
  fields.option("on_error", on_error, {"stop", "skip"},
                "what a sample does that cannot be used (damaged, gone, too small): stop the run, "
                "or be named "
                "and replaced by the next one");
  fields.object(
      "transform", [&](Fields& inner) { transform.describe(inner); },
      "what is done to each image; a test set without one is prepared as the training set is",
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
  throw ConfigError(text("dataset type \"", config.type, "\" is not known"));
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
