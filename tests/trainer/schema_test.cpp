// The shipped JSON Schemas equal the generated ones. Schemas and parsers accept and refuse the same
// files.

#include <doctest/doctest.h>

#include <cmath>

#include "core/error.h"
#include "net/network.h"
#include "tests/support/folders.h"
#include "tests/trainer/tiny_job.h"
#include "trainer/job/config.h"
#include "trainer/job/reference.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

const fs::path kSource = test::source_folder();

/// Implements the keywords of JSON Schema that our schemas use. Another keyword is an error.
class Validator {
 public:
  static bool accepts(const Json& schema, const Json& value) {
    if (schema.is_boolean()) return schema.get<bool>();
    for (const auto& [keyword, wanted] : schema.items())
      if (!holds(keyword, wanted, schema, value)) return false;
    return true;
  }

 private:
  static bool holds(const std::string& keyword, const Json& wanted, const Json& schema,
                    const Json& value) {
    if (keyword == "$schema" || keyword == "title" || keyword == "description" ||
        keyword == "default")
      return true;
    if (keyword == "type") return has_type(wanted.get<std::string>(), value);
    if (keyword == "const") return value == wanted;
    if (keyword == "enum") return std::find(wanted.begin(), wanted.end(), value) != wanted.end();
    if (keyword == "minimum") return !value.is_number() || value >= wanted;
    if (keyword == "maximum") return !value.is_number() || value <= wanted;
    if (keyword == "exclusiveMinimum") return !value.is_number() || value > wanted;
    if (keyword == "minItems") return !value.is_array() || value.size() >= wanted;
    if (keyword == "maxItems") return !value.is_array() || value.size() <= wanted;
    if (keyword == "items") return all_items(wanted, value);
    if (keyword == "required") return has_all(wanted, value);
    if (keyword == "properties") return properties_hold(wanted, value);
    if (keyword == "patternProperties") return wanted == Json{{"^(_|//)", true}};
    if (keyword == "additionalProperties")
      return !wanted.get<bool>() ? none_more(schema, value) : true;
    if (keyword == "anyOf") return count(wanted, value) >= 1;
    if (keyword == "oneOf") return count(wanted, value) == 1;
    FAIL("unknown keyword " << keyword);
    return false;
  }

  static bool has_type(const std::string& type, const Json& value) {
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_boolean();
    if (type == "integer") return value.is_number_integer();
    return type == "number" && value.is_number();
  }
  static bool all_items(const Json& schema, const Json& value) {
    return !value.is_array() || std::all_of(value.begin(), value.end(), [&](const Json& item) {
      return accepts(schema, item);
    });
  }
  static bool has_all(const Json& names, const Json& value) {
    return !value.is_object() || std::all_of(names.begin(), names.end(), [&](const Json& name) {
      return value.contains(name.get<std::string>());
    });
  }
  static bool properties_hold(const Json& properties, const Json& value) {
    if (!value.is_object()) return true;
    for (const auto& [key, schema] : properties.items())
      if (value.contains(key) && !accepts(schema, value[key])) return false;
    return true;
  }
  static bool none_more(const Json& schema, const Json& value) {
    if (!value.is_object()) return true;
    const bool notes = schema.contains("patternProperties");
    for (const auto& [key, member] : value.items()) {
      const bool is_note = notes && (key.starts_with("_") || key.starts_with("//"));
      if (!is_note && !schema["properties"].contains(key)) return false;
    }
    return true;
  }
  static int64_t count(const Json& schemas, const Json& value) {
    return std::count_if(schemas.begin(), schemas.end(),
                         [&](const Json& schema) { return accepts(schema, value); });
  }
};

std::vector<fs::path> json_files(const char* folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(kSource / folder))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  return files;
}

/// The base JSON with one value changed, named by a JSON pointer. `value` null removes it.
Json changed(const char* base, const char* pointer, const char* value) {
  Json json = Json::parse(base);
  const Json parsed = Json::parse(value);
  const Json::json_pointer at(pointer);
  if (parsed.is_null())
    json[at.parent_pointer()].erase(at.back());
  else
    json[at] = parsed;
  return json;
}

}  // namespace

TEST_CASE("the shipped schemas and docs/config.md are what the code generates") {
  CHECK(read_text(kSource / "configs/schema/job.schema.json") == job_schema().dump(2) + "\n");
  CHECK(read_text(kSource / "configs/schema/network.schema.json") ==
        network_schema().dump(2) + "\n");
  CHECK(read_text(kSource / "docs/config.md") == config_reference());
}

TEST_CASE("the schemas accept notes in every object, and \"$schema\" at the top") {
  const auto with_note = [](Json json, const char* pointer, const char* key) {
    json[Json::json_pointer(pointer)][key] = "why";
    return json;
  };
  const Json job = Json::parse(kTinyJob), network = Json::parse(kTinyNetwork);
  for (const char* object : {"", "/data", "/data/train", "/optimizer/schedule", "/train"}) {
    CAPTURE(object);
    CHECK(Validator::accepts(job_schema(), with_note(job, object, "_note")));
    CHECK(Validator::accepts(job_schema(), with_note(job, object, "//")));
    CHECK_FALSE(Validator::accepts(job_schema(), with_note(job, object, "note")));
  }
  for (const char* object : {"", "/input", "/layers/0", "/layers/0/weight_filler"}) {
    CAPTURE(object);
    CHECK(Validator::accepts(network_schema(), with_note(network, object, "_note")));
    CHECK_FALSE(Validator::accepts(network_schema(), with_note(network, object, "note")));
  }
  CHECK(Validator::accepts(job_schema(), with_note(job, "", "$schema")));
  CHECK(Validator::accepts(network_schema(), with_note(network, "", "$schema")));
  CHECK_FALSE(Validator::accepts(job_schema(), with_note(job, "/train", "$schema")));
}

TEST_CASE("parser and schema accept every shipped job with its network") {
  const Json schema = job_schema();
  for (const fs::path& file : json_files("configs")) {
    CAPTURE(file.string());
    CHECK(Validator::accepts(schema, read_json(file)));
    SilentLog log;
    const Job job = load_job({.file = file, .data_may_be_missing = true}, log);
    CHECK((job.network->classes() > 0 || job.config.data.train.pairs));
    // Jobs are named after their network and data set.
    CHECK(job.config.name == file.stem().string());
    CHECK(Validator::accepts(schema, resolved(job.config)));
  }
}

TEST_CASE("parser and schema accept every shipped network") {
  const Json schema = network_schema();
  for (const fs::path& file : json_files("configs/networks")) {
    CAPTURE(file.string());
    CHECK(Validator::accepts(schema, read_json(file)));
    CHECK_NOTHROW(net::Network(file, 2));
  }
}

TEST_CASE("schema and parser of jobs accept and refuse the same changes") {
  const Json schema = job_schema();
  const std::vector<std::array<const char*, 2>> changes{
      {"/name", "7"},
      {"/name", "\"x\""},
      {"/network", "null"},
      {"/data/batch_per_worker", "0"},
      {"/data/batch_per_worker", "2.5"},
      {"/data/global_batch", "8"},
      {"/data/batch_per_worker", "null"},
      {"/data/train/type", "\"imagenet\""},
      {"/data/train/path", "\"x\""},
      {"/data/train/transform/crop", "4"},
      {"/data/train/transform/crop", "[4, 5]"},
      {"/data/train/transform/crop", "[4, 5, 6]"},
      {"/data/train/transform/mean", "[1, 2]"},
      {"/data/test", "null"},
      {"/optimizer/type", "\"adagrad\""},
      {"/optimizer/type", "null"},
      {"/optimizer/momentum", "1"},
      {"/optimizer/momentum", "0"},
      {"/optimizer/learning_rate", "-1"},
      {"/optimizer/learning_rate", "null"},
      {"/optimizer/learning_rat", "1"},
      {"/optimizer/schedule/type", "\"exp\""},
      {"/optimizer/schedule/type", "\"step\""},
      {"/optimizer/schedule/gamma", "0.5"},
      {"/train/steps", "null"},
      {"/train/epochs", "1"},
      {"/train/seed", "-1"},
      {"/train/log_every", "0"},
      {"/device/precision", "\"fp64\""},
      {"/cluster", "{\"workers\": 1}"},
      {"/cluster", "[]"},
      {"/comm", "{\"scheme\": \"sfb\", \"chunk_bytes\": 65536}"},
      {"/comm", "{\"chunk_bytes\": 1}"}};
  for (const auto& change : changes) {
    const char *pointer = change[0], *value = change[1];
    CAPTURE(pointer);
    CAPTURE(value);
    const Json json = changed(kTinyJob, pointer, value);
    const bool parsed =
        error_of<ConfigError>([&, &j = json] { read_job_config(j, "job.json"); }).empty();
    CHECK(Validator::accepts(schema, json) == parsed);
  }
}

TEST_CASE("schema and parser of networks accept and refuse the same changes") {
  const Json schema = network_schema();
  const std::vector<std::array<const char*, 2>> changes{
      {"/name", "\"other\""},
      {"/name", "null"},
      {"/input", "{\"channels\": 2, \"height\": 6, \"width\": 6, \"depth\": 1}"},
      {"/layers/0/kernel", "[3, 1]"},
      {"/layers/0/kernel", "\"three\""},
      {"/layers/0/kernl", "3"},
      {"/layers/0/bias", "1"},
      {"/layers/0/weight_filler/type", "\"gauss\""},
      {"/layers/0/weight_filler", "{\"type\": \"gaussian\", \"deviation\": 0.1}"},
      {"/layers/2/type", "\"relux\""},
      {"/layers/3/ratio", "0.25"},
      {"/layers/3/ratio", "1.5"},
      {"/layers/5/weight", "0.3"},
      {"/layers", "{}"}};
  for (const auto& change : changes) {
    const char *pointer = change[0], *value = change[1];
    CAPTURE(pointer);
    CAPTURE(value);
    const Json json = changed(kTinyNetwork, pointer, value);
    const bool parsed =
        error_of<ConfigError>([&, &j = json] { net::Network(j, "network.json", 8); }).empty();
    CHECK(Validator::accepts(schema, json) == parsed);
  }
}
