#include <doctest/doctest.h>

#include "core/error.h"
#include "core/json.h"
#include "data/dataset_config.h"

using namespace poseidon;
using namespace poseidon::data;

namespace {

DatasetConfig parse(const std::string& json, DatasetConfig config = {}) {
  read_fields(parse_json(json, "job.json"), {"job.json", "/data/train"},
              [&](Fields& fields) { config.describe(fields); });
  return config;
}

std::string expand(const std::string& path) {
  return expand_variables(path, [](std::string_view name) -> std::optional<std::string> {
    if (name == "DATA") return "/big/data";
    return std::nullopt;
  });
}

}  // namespace

TEST_CASE("dataset config: a config survives a write and a read") {
  const DatasetConfig config = parse(R"({"type": "mnist", "path": "m", "split": "test",
      "shuffle": false, "on_error": "skip", "transform": {"crop": 24, "mean": [1, 2, 3], "std": 4,
      "random_resized_crop": {"size": [2, 3]}}})");
  CHECK(config.type == "mnist");
  CHECK(config.split == "test");
  CHECK_FALSE(config.shuffle);
  CHECK(config.on_error == OnError::kSkip);
  CHECK(config.has_transform);
  CHECK(config.transform.crop == std::array<int64_t, 2>{24, 24});
  CHECK(config.transform.mean == std::vector<double>{1, 2, 3});
  CHECK(config.transform.random_resized_crop.present);

  DatasetConfig copy = config;
  const Json written = write_fields([&](Fields& fields) { copy.describe(fields); });
  DatasetConfig again = parse(written.dump());
  CHECK(write_fields([&](Fields& fields) { again.describe(fields); }) == written);
}

TEST_CASE("dataset config: each type accepts its own keys and is in the schema") {
  CHECK(parse(R"({"type": "digits", "samples": 7, "split": "test", "seed": 3})").samples == 7);
  CHECK(parse(R"({"type": "random", "channels": 1, "height": 2, "width": 3, "classes": 4})")
            .class_count == 4);
  CHECK(parse(R"({"type": "mnist", "path": "m"})", DatasetConfig::for_testing()).split == "test");
  DatasetConfig config;
  const Json schema = schema_of([&](Fields& fields) { config.describe(fields); });
  CHECK(schema["oneOf"].size() == 7);
}

TEST_CASE("dataset config: an error names the JSON path or suggests a valid value") {
  CHECK_THROWS_WITH_AS(parse(R"({"type": "mnits", "path": "m"})"),
                       doctest::Contains("did you mean \"mnist\"?"), ConfigError);
  CHECK_THROWS_WITH_AS(parse(R"({"type": "digits", "path": "m"})"),
                       doctest::Contains("/data/train/path: unknown key"), ConfigError);
  CHECK_THROWS_AS(parse(R"({"type": "records"})"), ConfigError);
  CHECK_THROWS_AS(parse(R"({"type": "digits", "transform": {"crop": -1}})"), ConfigError);
}

TEST_CASE("dataset config: paths expand variables, and an unset variable is refused") {
  CHECK(expand("a/b") == "a/b");
  CHECK(expand("${DATA}/mnist") == "/big/data/mnist");
  CHECK(expand("x${DATA}${DATA}") == "x/big/data/big/data");
  CHECK(expand("$DATA") == "$DATA");
  CHECK_THROWS_WITH_AS(expand("${NONE}/x"), "\"${NONE}/x\": the variable NONE is not set",
                       ConfigError);
  CHECK_THROWS_WITH_AS(expand("a${DATA"), "\"a${DATA\": \"${\" at byte 1 has no \"}\"",
                       ConfigError);
}
