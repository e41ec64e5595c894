#include "core/json.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/config_file.h"
#include "core/error.h"
#include "tests/support/error_of.h"

using namespace poseidon;

namespace {

/// The error for `json_text`; "" if it is accepted.
std::string refusal(const std::string& json_text) {
  try {
    parse_json(json_text, "job.json");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

std::string nested(int depth) {
  return std::string(static_cast<size_t>(depth), '[') +
         std::string(static_cast<size_t>(depth), ']');
}

}  // namespace

TEST_CASE("json: objects keep the order of their keys") {
  CHECK(parse_json(R"({"z": 1, "a": [true, null], "m": 0.5})", "job.json").dump() ==
        R"({"z":1,"a":[true,null],"m":0.5})");
}

TEST_CASE("json: malformed text is rejected with line and column") {
  CHECK(refusal("{\"a\": 1,\n \"b\": }").starts_with("job.json:2:7: not valid JSON: syntax error"));
  CHECK(refusal("").starts_with("job.json:1:1: not valid JSON: syntax error"));
  CHECK(refusal("{\"a\": 1} x").starts_with("job.json:1:10: not valid JSON: syntax error"));
  CHECK(refusal("{'a': 1}").starts_with("job.json:1:2: not valid JSON"));
  CHECK(refusal("[1, 2,]").starts_with("job.json:1:7: not valid JSON"));
  CHECK(refusal("[NaN]").starts_with("job.json:1:2: not valid JSON"));
  CHECK(refusal("\"\xff\"").starts_with("job.json:1:2: not valid JSON"));
}

TEST_CASE("json: a duplicate key in one object is rejected") {
  CHECK(refusal(R"({"a": {"b": 1, "b": 2}})") == "job.json: duplicate key \"b\" in one object");
  CHECK(refusal(R"({"a": {"b": 1}, "c": {"b": 2}})") == "");
  CHECK(refusal(R"([{"a": 1}, {"a": 2}])") == "");
}

TEST_CASE("json: nesting deeper than 64 levels is rejected") {
  CHECK(refusal(nested(64)) == "");
  CHECK(refusal(nested(66)) == "job.json: nested deeper than 64 levels");
  CHECK(refusal(nested(100000)) == "job.json: nested deeper than 64 levels");
}

TEST_CASE("json: a number above the range of double is rejected") {
  CHECK(refusal("[1e999]").starts_with("job.json"));
}

TEST_CASE("json: a text above 16 MiB is rejected before it is parsed") {
  CHECK(refusal(std::string((size_t{16} << 20) + 1, ' ')) ==
        "job.json: expected at most 16777216 bytes of JSON, got 16777217");
}

TEST_CASE("json: a file that cannot be read is named") {
  CHECK_THROWS_WITH_AS(read_json("no/such/file.json"),
                       "no/such/file.json: cannot be opened: No such file or directory",
                       ConfigError);
  const std::string folder = std::filesystem::temp_directory_path().string();
  CHECK_THROWS_WITH_AS(read_json(folder), (folder + ": expected a file, got a folder").c_str(),
                       ConfigError);
}

TEST_CASE("json: a long file is read completely, unless it is above the limit") {
  const auto path = std::filesystem::temp_directory_path() / text("json-", getpid(), ".json");
  const auto write = [&](const std::string& words) {
    std::ofstream(path, std::ios::binary) << words;
  };
  write("\"" + std::string(1000000, 'x') + "\"");
  CHECK(read_json(path).get<std::string>().size() == 1000000);
  write(std::string((size_t{16} << 20) + 1, ' '));
  CHECK_THROWS_AS(read_json(path), ConfigError);
  std::filesystem::remove(path);
}

TEST_CASE("json: shown() prints a value in one short line") {
  CHECK(shown(Json("three")) == "\"three\"");
  CHECK(shown(Json{{"a", 1}}) == "{\"a\":1}");
  const std::string cut = shown(Json(std::string(100, 'x')));
  CHECK(cut.size() == 60);
  CHECK(cut.ends_with("..."));
  CHECK(shown(Json("\xff")) == "\"\xef\xbf\xbd\"");
}

TEST_CASE("json: nearest() returns the nearest name, if one is near") {
  const std::vector<std::string> names{"kernel", "stride", "padding"};
  CHECK(nearest("kernl", names) == "kernel");
  CHECK(nearest("pading", names) == "padding");
  CHECK(nearest("momentum", names) == "");
  CHECK(suggestion("strides", names) == "; did you mean \"stride\"?");
  CHECK(suggestion("momentum", names) == "");
  CHECK(nearest(std::string(10000, 'x'), names) == "");
}

TEST_CASE("json: a number that is too large is shown with line and column") {
  CHECK(error_of<ConfigError>([] { parse_json("{\"a\": 1,\n \"b\": 1e999}", "f.json"); }) ==
        "f.json:2:7: not valid JSON: number overflow parsing '1e999'");
  const std::string cut = refusal("[" + std::string(400, '7') + "]");
  CHECK(cut.starts_with("job.json:1:2: not valid JSON: number overflow parsing '777"));
  CHECK(cut.find("7...7") != std::string::npos);
  CHECK(cut.size() < 250);
}

TEST_CASE("json: comments are allowed in a config, but not in other JSON") {
  const std::string commented = "{ // why\n \"a\": /* two\nlines */ 1 // end\n}";
  CHECK(parse_config(commented, "job.json").dump() == R"({"a":1})");
  CHECK(refusal(commented).starts_with("job.json:1:3: not valid JSON"));
  CHECK(error_of<ConfigError>([] {
          parse_config("{} /* open", "job.json");
        }).starts_with("job.json:1:"));
}

TEST_CASE("json: notes and a top-level $schema are removed from a config") {
  CHECK(parse_config(R"({"$schema": "s.json", "_why": {"deep": [1]}, "a": {"_b": 1, "c": 2},
                         "//": "x", "d": [{"_e": 1}, 3], "//": "y"})",
                     "job.json")
            .dump() == R"({"a":{"c":2},"d":[{},3]})");
  // Only the top object may name a schema.
  CHECK(parse_config(R"({"a": {"$schema": 1}})", "job.json").dump() == R"({"a":{"$schema":1}})");
  CHECK(parse_json(R"({"_a": 1})", "job.json").dump() == R"({"_a":1})");
}

TEST_CASE("json: errors in a config with comments and notes have the right line and column") {
  const auto refused = [](const std::string& json_text) {
    return error_of<ConfigError>([&] { parse_config(json_text, "job.json"); });
  };
  CHECK(refused("// one\n{ /* two\n three */ \"a\": }").starts_with("job.json:3:16: not valid"));
  CHECK(refused("// one\n{\"a\": 1, \"a\": 2}") == "job.json: duplicate key \"a\" in one object");
  CHECK(
      refused("/* " + std::string(3, '\n') + "*/ [1e999]").starts_with("job.json:4:5: not valid"));
  CHECK(refused("{\"_\": " + nested(66) + "}") == "job.json: nested deeper than 64 levels");
}

TEST_CASE("json: nearest_key() matches initials and words of a key") {
  const std::vector<std::string> keys{"learning_rate", "weight_decay", "batch_per_worker"};
  CHECK(nearest_key("lr", keys) == "learning_rate");
  CHECK(nearest_key("wd", keys) == "weight_decay");
  CHECK(nearest_key("batch_size", keys) == "batch_per_worker");
  CHECK(nearest_key("base_learning", keys) == "learning_rate");
  CHECK(nearest_key("decay", keys) == "weight_decay");
  CHECK(nearest_key("x", keys) == "");
  CHECK(nearest_key("", keys) == "");
  CHECK(key_suggestion("lr", keys) == "; did you mean \"learning_rate\"?");
}
