#include "core/fields.h"

#include <doctest/doctest.h>

#include "core/error.h"
#include "core/json.h"
#include "tests/support/error_of.h"

using namespace poseidon;

namespace {

enum class Color : uint8_t { kRed, kGreen };

/// A struct with a field of every kind.
struct Sample {
  bool flag = true;
  int64_t count = 3;
  double rate = 0.5;
  std::string name = "x";
  std::array<int64_t, 2> kernel{5, 5};
  Sides padding = Sides::of({1, 1});
  std::vector<double> means{1.5};
  std::vector<int64_t> steps;
  std::vector<std::string> inputs;
  Color color = Color::kRed;
  bool has_crop = false;
  int64_t crop = 0;
  std::vector<int64_t> items;
  std::string type = "fixed";
  double gamma = 0.1;
  Json extra;

  void describe(Fields& fields) {
    fields.boolean("flag", flag, "a flag");
    fields.integer("count", count, between(1, 10), "a count", Presence::kRequired);
    fields.number("rate", rate, kPositive, "a rate");
    fields.text("name", name, "a name");
    fields.pair("kernel", kernel, at_least(1), "a window");
    fields.sides("padding", padding, at_least(0), "cells at each side");
    fields.numbers("means", means, {}, "means");
    fields.integers("steps", steps, at_least(0), "steps");
    fields.texts("inputs", inputs, "names");
    fields.option("color", color, {"red", "green"}, "a color");
    fields.object(
        "crop", [this](Fields& f) { f.integer("size", crop, at_least(1), "a size"); },
        "a nested object", Presence::kOptional, &has_crop);
    fields.objects(
        "items", items.size(), [this](size_t size) { items.resize(size); },
        [this](Fields& f, size_t i) { f.integer("id", items[i], {}, "an id"); }, "a list");
    fields.variant("type", type,
                   {{"fixed", "no change", [](Fields&) {}},
                    {"exp", "decays",
                     [this](Fields& f) { f.number("gamma", gamma, between(0, 1), "a factor"); }}},
                   "a form", Presence::kOptional);
    fields.raw("extra", extra, "anything");
  }
};

Sample read(const std::string& json_text) {
  Sample sample;
  const Json json = parse_json(json_text, "job.json");
  read_fields(json, {"job.json", ""}, [&](Fields& fields) { sample.describe(fields); });
  return sample;
}

std::string refusal(const std::string& json_text) {
  try {
    read(json_text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

Json written(Sample sample) {
  return write_fields([&](Fields& fields) { sample.describe(fields); });
}

Json schema() {
  Sample sample;
  return schema_of([&](Fields& fields) { sample.describe(fields); });
}

constexpr const char* kEverything = R"({
  "flag": false, "count": 10, "rate": 2, "name": "y", "kernel": [3, 4],
  "padding": [1, 2, 3, 4], "means": [1, 2.5],
  "steps": [4, 5], "inputs": ["a", "b"], "color": "green", "crop": {"size": 8},
  "items": [{"id": -1}, {"id": 7}], "type": "exp", "gamma": 0.25, "extra": {"any": [1, "thing"]}})";

}  // namespace

TEST_CASE("an absent key keeps its default") {
  const Sample sample = read(R"({"count": 1})");
  CHECK(sample.flag);
  CHECK(sample.count == 1);
  CHECK(sample.rate == 0.5);
  CHECK(sample.kernel == std::array<int64_t, 2>{5, 5});
  CHECK(sample.means == std::vector<double>{1.5});
  CHECK(sample.color == Color::kRed);
  CHECK_FALSE(sample.has_crop);
  CHECK(sample.type == "fixed");
}

TEST_CASE("every kind of field is read") {
  const Sample sample = read(kEverything);
  CHECK_FALSE(sample.flag);
  CHECK(sample.count == 10);
  CHECK(sample.rate == 2);
  CHECK(sample.name == "y");
  CHECK(sample.kernel == std::array<int64_t, 2>{3, 4});
  CHECK(sample.padding == Sides{.before = {1, 3}, .after = {2, 4}});
  CHECK(sample.means == std::vector<double>{1, 2.5});
  CHECK(sample.steps == std::vector<int64_t>{4, 5});
  CHECK(sample.inputs == std::vector<std::string>{"a", "b"});
  CHECK(sample.color == Color::kGreen);
  CHECK(sample.has_crop);
  CHECK(sample.crop == 8);
  CHECK(sample.items == std::vector<int64_t>{-1, 7});
  CHECK(sample.type == "exp");
  CHECK(sample.gamma == 0.25);
  CHECK(sample.extra.dump() == R"({"any":[1,"thing"]})");
}

TEST_CASE("a single value is read as an equal pair, or as a list of one") {
  const Sample sample = read(R"({"count": 1, "kernel": 7, "means": 3, "steps": 4, "inputs": "a"})");
  CHECK(sample.kernel == std::array<int64_t, 2>{7, 7});
  CHECK(sample.means == std::vector<double>{3});
  CHECK(sample.steps == std::vector<int64_t>{4});
  CHECK(sample.inputs == std::vector<std::string>{"a"});
}

TEST_CASE("written fields are read back unchanged") {
  const Json json = written(read(kEverything));
  CHECK(json == parse_json(kEverything, "job.json"));
  CHECK(written(read(json.dump())) == json);
}

TEST_CASE("write_fields() writes all defaults") {
  CHECK(written(Sample{}).dump() ==
        R"({"flag":true,"count":3,"rate":0.5,"name":"x","kernel":5,"padding":1,"means":[1.5],)"
        R"("steps":[],"inputs":[],"color":"red","items":[],"type":"fixed"})");
}

TEST_CASE("a value of a wrong type is rejected with path, expected type and value") {
  CHECK(refusal(R"({"count": "three"})") ==
        "job.json: /count: expected an integer in [1, 10], got \"three\"");
  CHECK(refusal(R"({"count": 1.5})") ==
        "job.json: /count: expected an integer in [1, 10], got 1.5");
  CHECK(refusal(R"({"count": 1, "flag": 1})") == "job.json: /flag: expected true or false, got 1");
  CHECK(refusal(R"({"count": 1, "name": []})") == "job.json: /name: expected a string, got []");
  CHECK(refusal(R"({"count": 1, "crop": 3})") == "job.json: /crop: expected an object, got 3");
  CHECK(refusal(R"({"count": 1, "items": {}})") == "job.json: /items: expected a list, got {}");
  CHECK(refusal(R"({"count": 1, "items": [{"id": 1}, {"id": "b"}]})") ==
        "job.json: /items/1/id: expected an integer, got \"b\"");
  CHECK(refusal(R"({"count": 1, "inputs": ["a", 2]})") ==
        "job.json: /inputs/1: expected a string, got 2");
  CHECK(refusal("[]") == "job.json: /: expected an object, got []");
}

TEST_CASE("a number out of range is rejected") {
  CHECK(refusal(R"({"count": 0})") == "job.json: /count: expected an integer in [1, 10], got 0");
  CHECK(refusal(R"({"count": 18446744073709551615})") ==
        "job.json: /count: expected an integer in [1, 10], got 18446744073709551615");
  CHECK(refusal(R"({"count": 1, "rate": 0})") == "job.json: /rate: expected a number > 0, got 0");
  CHECK(refusal(R"({"count": 1, "kernel": [3, 0]})") ==
        "job.json: /kernel/1: expected an integer >= 1, got 0");
  CHECK(refusal(R"({"count": 1, "steps": [1, -1]})") ==
        "job.json: /steps/1: expected an integer >= 0, got -1");
}

TEST_CASE("an integer above 64 bits is rejected with the maximum") {
  CHECK(refusal(R"({"count": 1, "steps": [18446744073709551615]})") ==
        "job.json: /steps/0: expected an integer of at most 9223372036854775807, got "
        "18446744073709551615");
}

TEST_CASE("sides are one integer, [height, width] or [top, bottom, left, right]") {
  const auto padding_of = [](const std::string& value) {
    return read(text(R"({"count": 1, "padding": )", value, "}")).padding;
  };
  const auto written_back = [](const std::string& value) {
    return written(read(text(R"({"count": 1, "padding": )", value, "}"))).at("padding").dump();
  };
  CHECK(padding_of("3") == Sides::of({3, 3}));
  CHECK(padding_of("[3, 4]") == Sides::of({3, 4}));
  CHECK(written_back("3") == "3");
  CHECK(written_back("[3,4]") == "[3,4]");
  CHECK(written_back("[5,5,5,5]") == "5");
  CHECK(written_back("[0,1,0,1]") == "[0,1,0,1]");
  for (const std::string value : {"[3]", "[1,2,3]", "[1,2,3,4,5]"})
    CHECK(refusal(text(R"({"count": 1, "padding": )", value, "}")) ==
          text("job.json: /padding: expected an integer, [height, width] or [top, bottom, left, "
               "right], got ",
               value));
  CHECK(refusal(R"({"count": 1, "padding": [0, -1, 0, 0]})") ==
        "job.json: /padding/1: expected an integer >= 0, got -1");
}

TEST_CASE("a pair must have two elements") {
  CHECK(refusal(R"({"count": 1, "kernel": [3]})") ==
        "job.json: /kernel: expected an integer or [height, width], got [3]");
}

TEST_CASE("a missing key is named") { CHECK(refusal("{}") == "job.json: /: \"count\" is missing"); }

TEST_CASE("a misspelt required key is reported with the expected key") {
  CHECK(refusal(R"({"coumt": 3})") ==
        "job.json: /coumt: did you mean \"count\", which is missing?");
  const auto optimizer = [](const std::string& json_text) {
    return error_of<ConfigError>([&] {
      double rate = 0;
      std::string type;
      read_fields(parse_json(json_text, "job.json"), {"job.json", ""}, [&](Fields& fields) {
        fields.variant("type", type, {{"sgd", "", [](Fields&) {}}}, "", Presence::kRequired);
        fields.number("learning_rate", rate, {}, "", Presence::kRequired);
      });
    });
  };
  CHECK(optimizer(R"({"type": "sgd", "lr": 1})") ==
        "job.json: /lr: did you mean \"learning_rate\", which is missing?");
  CHECK(optimizer(R"({"typ": "sgd", "learning_rate": 1})") ==
        "job.json: /typ: did you mean \"type\", which is missing?");
  CHECK(optimizer(R"({"type": "sgd", "x": 1})") == "job.json: /: \"learning_rate\" is missing");
}

TEST_CASE("an unknown key is rejected with the nearest known name") {
  CHECK(refusal(R"({"count": 1, "kernal": 3})") ==
        "job.json: /kernal: unknown key; did you mean \"kernel\"?");
  CHECK(refusal(R"({"count": 1, "quite_another": 3})") == "job.json: /quite_another: unknown key");
  CHECK(refusal(R"({"count": 1, "crop": {"sise": 3}})") ==
        "job.json: /crop/sise: unknown key; did you mean \"size\"?");
}

TEST_CASE("a key of another variant is unknown") {
  CHECK(refusal(R"({"count": 1, "type": "fixed", "gamma": 0.5})")
            .starts_with("job.json: /gamma: unknown key"));
}

TEST_CASE("an unknown name of a choice or variant is rejected with the known names") {
  CHECK(refusal(R"({"count": 1, "color": "gren"})") ==
        "job.json: /color: expected one of \"red\", \"green\", got \"gren\"; did you mean "
        "\"green\"?");
  CHECK(refusal(R"({"count": 1, "type": "exponential"})") ==
        "job.json: /type: expected one of \"fixed\", \"exp\", got \"exponential\"");
}

TEST_CASE("the schema describes the keys that the reader accepts") {
  const Json made = schema();
  CHECK(made["type"] == "object");
  CHECK(made["required"] == Json::array({"count"}));
  const Json& properties = made["properties"];
  CHECK(properties["count"] ==
        Json{{"type", "integer"}, {"minimum", 1.0}, {"maximum", 10.0}, {"description", "a count"}});
  CHECK(properties["rate"]["exclusiveMinimum"] == 0.0);
  CHECK(properties["rate"]["default"] == 0.5);
  CHECK(properties["kernel"]["default"] == 5);
  CHECK(properties["kernel"]["anyOf"][1]["maxItems"] == 2);
  CHECK(properties["color"]["enum"] == Json::array({"red", "green"}));
  CHECK(properties["color"]["default"] == "red");
  CHECK(properties["crop"]["additionalProperties"] == false);
  CHECK(properties["crop"]["patternProperties"] == Json{{"^(_|//)", true}});
  CHECK(properties["items"]["items"]["properties"]["id"]["type"] == "integer");
  CHECK(properties["extra"] == Json{{"description", "anything"}});
}

TEST_CASE("each variant is a branch of the schema with its keys and the common keys") {
  const Json made = schema();
  CHECK(made["properties"]["type"]["enum"] == Json::array({"fixed", "exp"}));
  CHECK(made["oneOf"].size() == 2);
  const Json& fixed = made["oneOf"][0];
  const Json& exp = made["oneOf"][1];
  CHECK(fixed["additionalProperties"] == false);
  CHECK(fixed["patternProperties"] == Json{{"^(_|//)", true}});
  CHECK_FALSE(fixed["properties"].contains("gamma"));
  CHECK(exp["properties"]["gamma"]["maximum"] == 1.0);
  CHECK(exp["properties"]["count"] == true);
  CHECK(exp["properties"]["type"]["const"] == "exp");
}

TEST_CASE("making a schema is repeatable and does not change the described struct") {
  Sample sample;
  sample.items = {4, 5};
  const auto describe = [&](Fields& fields) { sample.describe(fields); };
  CHECK(schema_of(describe) == schema_of(describe));
  CHECK(sample.items == std::vector<int64_t>{4, 5});
}
