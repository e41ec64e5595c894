#include "core/fields.h"

#include <algorithm>
#include <cmath>

#include "core/config_file.h"
#include "core/error.h"
#include "core/json.h"

namespace poseidon {

namespace {

std::string number_text(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15)
    return std::to_string(static_cast<int64_t>(value));
  return Json(value).dump();
}

/// A range for error messages, such as " >= 1" or " in [0, 1]"; "" for an unlimited range.
std::string range_text(Range range) {
  const bool low = std::isfinite(range.minimum), high = std::isfinite(range.maximum);
  if (low && high)
    return (range.above_minimum ? " in (" : " in [") + number_text(range.minimum) + ", " +
           number_text(range.maximum) + "]";
  if (low) return (range.above_minimum ? " > " : " >= ") + number_text(range.minimum);
  if (high) return " <= " + number_text(range.maximum);
  return "";
}

bool inside(double value, Range range) {
  return (range.above_minimum ? value > range.minimum : value >= range.minimum) &&
         value <= range.maximum;
}

[[noreturn]] void fail_expected(const JsonPath& place, const std::string& expected,
                                const Json& got) {
  fail_at(place, "expected " + expected + ", got " + shown(got));
}

int64_t read_integer(const Json& json, const JsonPath& place, Range range) {
  const bool fits =
      json.is_number_integer() &&
      !(json.is_number_unsigned() && json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX));
  if (json.is_number_integer() && !fits && !std::isfinite(range.maximum))
    fail_expected(place, poseidon::text("an integer of at most ", INT64_MAX), json);
  if (!fits || !inside(static_cast<double>(json.get<int64_t>()), range))
    fail_expected(place, "an integer" + range_text(range), json);
  return json.get<int64_t>();
}

double read_number(const Json& json, const JsonPath& place, Range range) {
  if (!json.is_number() || !std::isfinite(json.get<double>()) || !inside(json.get<double>(), range))
    fail_expected(place, "a number" + range_text(range), json);
  return json.get<double>();
}

std::string read_text(const Json& json, const JsonPath& place) {
  if (!json.is_string()) fail_expected(place, "a string", json);
  return json.get<std::string>();
}

/// Calls `each(element, place)` for the elements of a list, or once for a value that is not a list.
template <class Each>
void for_each_element(const Json& json, const JsonPath& place, const Each& each) {
  if (!json.is_array()) return each(json, place);
  for (size_t i = 0; i < json.size(); ++i) each(json[i], place.at(i));
}

std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "\"" : ", \"") + name + "\"";
  return out;
}

[[noreturn]] void fail_unknown_name(const JsonPath& place, const std::string& got,
                                    const std::vector<std::string>& names) {
  const std::string hint = suggestion(got, names);
  fail_at(place, "expected one of " + listed(names) + ", got " + shown(Json(got)) + hint);
}

/// Reports a missing key. If an unknown key of the object is similar, it is probably a misspelling
/// of the missing one, so the message names it.
[[noreturn]] void fail_missing(std::string_view key, const Json& object, const JsonPath& place,
                               const std::vector<std::string>& known) {
  const std::string missing(key);
  for (const auto& [given, value] : object.items())
    if (std::ranges::find(known, given) == known.end() && nearest_key(given, {missing}) == missing)
      fail_at(place.at(given), "did you mean \"" + missing + "\", which is missing?");
  fail_at(place, "\"" + missing + "\" is missing");
}

std::vector<std::string> names_of(const std::vector<Variant>& variants) {
  std::vector<std::string> names;
  for (const Variant& variant : variants) names.push_back(variant.name);
  return names;
}

}  // namespace

// ---- reading

FieldReader::FieldReader(const Json& object, JsonPath place)
    : object_(object), place_(std::move(place)) {
  if (!object_.is_object()) fail_expected(place_, "an object", object_);
}

const Json* FieldReader::find(std::string_view key, Presence presence) {
  known_.emplace_back(key);
  const auto at = object_.find(std::string(key));
  if (at != object_.end()) return &*at;
  if (presence == Presence::kRequired) fail_missing(key, object_, place_, known_);
  return nullptr;
}

bool FieldReader::has(std::string_view key) const { return object_.contains(std::string(key)); }

void FieldReader::finish() const {
  for (const auto& [key, value] : object_.items())
    if (std::find(known_.begin(), known_.end(), key) == known_.end())
      fail_at(place_.at(key), "unknown key" + key_suggestion(key, known_));
}

void FieldReader::boolean(std::string_view key, bool& value, std::string_view) {
  const Json* json = find(key, Presence::kOptional);
  if (json == nullptr) return;
  if (!json->is_boolean()) fail_expected(place_.at(key), "true or false", *json);
  value = json->get<bool>();
}

void FieldReader::integer(std::string_view key, int64_t& value, Range range, std::string_view,
                          Presence presence) {
  if (const Json* json = find(key, presence)) value = read_integer(*json, place_.at(key), range);
}

void FieldReader::number(std::string_view key, double& value, Range range, std::string_view,
                         Presence presence) {
  if (const Json* json = find(key, presence)) value = read_number(*json, place_.at(key), range);
}

void FieldReader::text(std::string_view key, std::string& value, std::string_view,
                       Presence presence) {
  if (const Json* json = find(key, presence)) value = read_text(*json, place_.at(key));
}

void FieldReader::pair(std::string_view key, std::array<int64_t, 2>& value, Range range,
                       std::string_view, Presence presence) {
  const Json* json = find(key, presence);
  if (json == nullptr) return;
  if (!json->is_array()) {
    value.fill(read_integer(*json, place_.at(key), range));
    return;
  }
  if (json->size() != 2) fail_expected(place_.at(key), "an integer or [height, width]", *json);
  for (size_t i = 0; i < 2; ++i) value[i] = read_integer((*json)[i], place_.at(key).at(i), range);
}

void FieldReader::sides(std::string_view key, Sides& value, Range range, std::string_view,
                        Presence presence) {
  const Json* json = find(key, presence);
  if (json == nullptr) return;
  std::vector<int64_t> numbers;
  if (json->is_array())
    for (size_t i = 0; i < json->size(); ++i)
      numbers.push_back(read_integer((*json)[i], place_.at(key).at(i), range));
  else
    numbers.assign(2, read_integer(*json, place_.at(key), range));
  if (numbers.size() == 2)
    value = Sides::of({numbers[0], numbers[1]});
  else if (numbers.size() == 4)
    value = {.before = {numbers[0], numbers[2]}, .after = {numbers[1], numbers[3]}};
  else
    fail_expected(place_.at(key), "an integer, [height, width] or [top, bottom, left, right]",
                  *json);
}

void FieldReader::numbers(std::string_view key, std::vector<double>& value, Range range,
                          std::string_view, Presence presence) {
  const Json* json = find(key, presence);
  if (json == nullptr) return;
  value.clear();
  for_each_element(*json, place_.at(key), [&](const Json& element, const JsonPath& place) {
    value.push_back(read_number(element, place, range));
  });
}

void FieldReader::integers(std::string_view key, std::vector<int64_t>& value, Range range,
                           std::string_view, Presence presence) {
  const Json* json = find(key, presence);
  if (json == nullptr) return;
  value.clear();
  for_each_element(*json, place_.at(key), [&](const Json& element, const JsonPath& place) {
    value.push_back(read_integer(element, place, range));
  });
}

void FieldReader::texts(std::string_view key, std::vector<std::string>& value, std::string_view,
                        Presence presence) {
  const Json* json = find(key, presence);
  if (json == nullptr) return;
  value.clear();
  for_each_element(*json, place_.at(key), [&](const Json& element, const JsonPath& place) {
    value.push_back(read_text(element, place));
  });
}

void FieldReader::object(std::string_view key, const Describe& describe, std::string_view,
                         Presence presence, bool* present) {
  const Json* json = find(key, presence);
  if (present != nullptr) *present = json != nullptr;
  if (json != nullptr) read_fields(*json, place_.at(key), describe);
}

void FieldReader::objects(std::string_view key, size_t, const std::function<void(size_t)>& resize,
                          const std::function<void(Fields&, size_t)>& describe, std::string_view,
                          Presence presence) {
  const Json* json = find(key, presence);
  if (json == nullptr) return;
  if (!json->is_array()) fail_expected(place_.at(key), "a list", *json);
  resize(json->size());
  for (size_t i = 0; i < json->size(); ++i)
    read_fields((*json)[i], place_.at(key).at(i), [&](Fields& fields) { describe(fields, i); });
}

void FieldReader::variant(std::string_view key, std::string& value,
                          const std::vector<Variant>& variants, std::string_view,
                          Presence presence) {
  if (const Json* json = find(key, presence)) value = read_text(*json, place_.at(key));
  const auto chosen = std::find_if(variants.begin(), variants.end(),
                                   [&](const Variant& variant) { return variant.name == value; });
  if (chosen == variants.end()) fail_unknown_name(place_.at(key), value, names_of(variants));
  chosen->describe(*this);
}

void FieldReader::raw(std::string_view key, Json& value, std::string_view, Presence presence) {
  if (const Json* json = find(key, presence)) value = *json;
}

void FieldReader::choice(std::string_view key, int& index, const std::vector<std::string>& names,
                         std::string_view, Presence presence) {
  const Json* json = find(key, presence);
  if (json == nullptr) return;
  const std::string name = read_text(*json, place_.at(key));
  const auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end()) fail_unknown_name(place_.at(key), name, names);
  index = static_cast<int>(at - names.begin());
}

void read_fields(const Json& object, const JsonPath& place, const Describe& describe) {
  FieldReader reader(object, place);
  describe(reader);
  reader.finish();
}

// ---- writing

namespace {

Json json_of(const std::array<int64_t, 2>& pair) {
  return pair[0] == pair[1] ? Json(pair[0]) : Json(pair);
}
Json json_of(const Sides& sides) {
  if (sides.before == sides.after) return json_of(sides.before);
  return Json{sides.before[0], sides.after[0], sides.before[1], sides.after[1]};
}

/// The visitor of write_fields().
class FieldWriter final : public Fields {
 public:
  void boolean(std::string_view key, bool& value, std::string_view doc) override;
  void integer(std::string_view key, int64_t& value, Range range, std::string_view doc,
               Presence presence) override;
  void number(std::string_view key, double& value, Range range, std::string_view doc,
              Presence presence) override;
  void text(std::string_view key, std::string& value, std::string_view doc,
            Presence presence) override;
  void pair(std::string_view key, std::array<int64_t, 2>& value, Range range, std::string_view doc,
            Presence presence) override;
  void sides(std::string_view key, Sides& value, Range range, std::string_view doc,
             Presence presence) override;
  void numbers(std::string_view key, std::vector<double>& value, Range range, std::string_view doc,
               Presence presence) override;
  void integers(std::string_view key, std::vector<int64_t>& value, Range range,
                std::string_view doc, Presence presence) override;
  void texts(std::string_view key, std::vector<std::string>& value, std::string_view doc,
             Presence presence) override;
  void object(std::string_view key, const Describe& describe, std::string_view doc,
              Presence presence, bool* present) override;
  void objects(std::string_view key, size_t size, const std::function<void(size_t)>& resize,
               const std::function<void(Fields&, size_t)>& describe, std::string_view doc,
               Presence presence) override;
  void variant(std::string_view key, std::string& value, const std::vector<Variant>& variants,
               std::string_view doc, Presence presence) override;
  void raw(std::string_view key, Json& value, std::string_view doc, Presence presence) override;
  void choice(std::string_view key, int& index, const std::vector<std::string>& names,
              std::string_view doc, Presence presence) override;

  Json take() { return std::move(object_); }

 private:
  void put(std::string_view key, Json value) { object_[std::string(key)] = std::move(value); }
  Json object_ = Json::object();
};

void FieldWriter::boolean(std::string_view key, bool& value, std::string_view) { put(key, value); }
void FieldWriter::integer(std::string_view key, int64_t& value, Range, std::string_view, Presence) {
  put(key, value);
}
void FieldWriter::number(std::string_view key, double& value, Range, std::string_view, Presence) {
  put(key, value);
}
void FieldWriter::text(std::string_view key, std::string& value, std::string_view, Presence) {
  put(key, value);
}
void FieldWriter::pair(std::string_view key, std::array<int64_t, 2>& value, Range, std::string_view,
                       Presence) {
  put(key, json_of(value));
}
void FieldWriter::sides(std::string_view key, Sides& value, Range, std::string_view, Presence) {
  put(key, json_of(value));
}
void FieldWriter::numbers(std::string_view key, std::vector<double>& value, Range, std::string_view,
                          Presence) {
  put(key, value);
}
void FieldWriter::integers(std::string_view key, std::vector<int64_t>& value, Range,
                           std::string_view, Presence) {
  put(key, value);
}
void FieldWriter::texts(std::string_view key, std::vector<std::string>& value, std::string_view,
                        Presence) {
  put(key, value);
}
void FieldWriter::object(std::string_view key, const Describe& describe, std::string_view, Presence,
                         bool* present) {
  if (present == nullptr || *present) put(key, write_fields(describe));
}
void FieldWriter::objects(std::string_view key, size_t size, const std::function<void(size_t)>&,
                          const std::function<void(Fields&, size_t)>& describe, std::string_view,
                          Presence) {
  Json list = Json::array();
  for (size_t i = 0; i < size; ++i)
    list.push_back(write_fields([&](Fields& fields) { describe(fields, i); }));
  put(key, std::move(list));
}
void FieldWriter::variant(std::string_view key, std::string& value,
                          const std::vector<Variant>& variants, std::string_view, Presence) {
  put(key, value);
  for (const Variant& variant : variants)
    if (variant.name == value) variant.describe(*this);
}
void FieldWriter::raw(std::string_view key, Json& value, std::string_view, Presence) {
  if (!value.is_null()) put(key, value);
}
void FieldWriter::choice(std::string_view key, int& index, const std::vector<std::string>& names,
                         std::string_view, Presence) {
  put(key, names[static_cast<size_t>(index)]);
}

}  // namespace

Json write_fields(const Describe& describe) {
  FieldWriter writer;
  describe(writer);
  return writer.take();
}

// ---- schema

namespace {

/// The visitor of schema_of().
class FieldSchema final : public Fields {
 public:
  void boolean(std::string_view key, bool& value, std::string_view doc) override;
  void integer(std::string_view key, int64_t& value, Range range, std::string_view doc,
               Presence presence) override;
  void number(std::string_view key, double& value, Range range, std::string_view doc,
              Presence presence) override;
  void text(std::string_view key, std::string& value, std::string_view doc,
            Presence presence) override;
  void pair(std::string_view key, std::array<int64_t, 2>& value, Range range, std::string_view doc,
            Presence presence) override;
  void sides(std::string_view key, Sides& value, Range range, std::string_view doc,
             Presence presence) override;
  void numbers(std::string_view key, std::vector<double>& value, Range range, std::string_view doc,
               Presence presence) override;
  void integers(std::string_view key, std::vector<int64_t>& value, Range range,
                std::string_view doc, Presence presence) override;
  void texts(std::string_view key, std::vector<std::string>& value, std::string_view doc,
             Presence presence) override;
  void object(std::string_view key, const Describe& describe, std::string_view doc,
              Presence presence, bool* present) override;
  void objects(std::string_view key, size_t size, const std::function<void(size_t)>& resize,
               const std::function<void(Fields&, size_t)>& describe, std::string_view doc,
               Presence presence) override;
  void variant(std::string_view key, std::string& value, const std::vector<Variant>& variants,
               std::string_view doc, Presence presence) override;
  void raw(std::string_view key, Json& value, std::string_view doc, Presence presence) override;
  void choice(std::string_view key, int& index, const std::vector<std::string>& names,
              std::string_view doc, Presence presence) override;

  Json take();

 private:
  void put(std::string_view key, Json schema, std::string_view doc, Presence presence);

  Json properties_ = Json::object();
  Json required_ = Json::array();
  Json variants_ =
      Json::array();  ///< "oneOf" branches; take() adds the object's common keys to each
};

/// Keys of notes, which parse_config removes.
constexpr const char* kNotePattern = "^(_|//)";

void add_range(Json& schema, Range range) {
  if (std::isfinite(range.minimum))
    schema[range.above_minimum ? "exclusiveMinimum" : "minimum"] = range.minimum;
  if (std::isfinite(range.maximum)) schema["maximum"] = range.maximum;
}

Json list_of(const Json& element, int count) {
  return {{"type", "array"}, {"items", element}, {"minItems", count}, {"maxItems", count}};
}

Json ranged(const char* type, Range range) {
  Json schema{{"type", type}};
  add_range(schema, range);
  return schema;
}

/// Schema for one `element` or a list of them.
Json one_or_list(const Json& element) {
  return Json{{"anyOf", Json::array({element, Json{{"type", "array"}, {"items", element}}})}};
}

void FieldSchema::put(std::string_view key, Json schema, std::string_view doc, Presence presence) {
  schema["description"] = doc;
  properties_[std::string(key)] = std::move(schema);
  if (presence == Presence::kRequired) required_.push_back(key);
}

void FieldSchema::boolean(std::string_view key, bool& value, std::string_view doc) {
  put(key, Json{{"type", "boolean"}, {"default", value}}, doc, Presence::kOptional);
}
void FieldSchema::integer(std::string_view key, int64_t& value, Range range, std::string_view doc,
                          Presence presence) {
  Json schema = ranged("integer", range);
  if (presence == Presence::kOptional) schema["default"] = value;
  put(key, std::move(schema), doc, presence);
}
void FieldSchema::number(std::string_view key, double& value, Range range, std::string_view doc,
                         Presence presence) {
  Json schema = ranged("number", range);
  if (presence == Presence::kOptional) schema["default"] = value;
  put(key, std::move(schema), doc, presence);
}
void FieldSchema::text(std::string_view key, std::string& value, std::string_view doc,
                       Presence presence) {
  Json schema{{"type", "string"}};
  if (presence == Presence::kOptional) schema["default"] = value;
  put(key, std::move(schema), doc, presence);
}
void FieldSchema::pair(std::string_view key, std::array<int64_t, 2>& value, Range range,
                       std::string_view doc, Presence presence) {
  const Json element = ranged("integer", range);
  Json schema{{"anyOf", Json::array({element, list_of(element, 2)})}};
  if (presence == Presence::kOptional) schema["default"] = json_of(value);
  put(key, std::move(schema), doc, presence);
}
void FieldSchema::sides(std::string_view key, Sides& value, Range range, std::string_view doc,
                        Presence presence) {
  const Json element = ranged("integer", range);
  Json schema{{"anyOf", Json::array({element, list_of(element, 2), list_of(element, 4)})}};
  if (presence == Presence::kOptional) schema["default"] = json_of(value);
  put(key, std::move(schema), doc, presence);
}
void FieldSchema::numbers(std::string_view key, std::vector<double>& value, Range range,
                          std::string_view doc, Presence presence) {
  Json schema = one_or_list(ranged("number", range));
  if (presence == Presence::kOptional) schema["default"] = value;
  put(key, std::move(schema), doc, presence);
}
void FieldSchema::integers(std::string_view key, std::vector<int64_t>& value, Range range,
                           std::string_view doc, Presence presence) {
  Json schema = one_or_list(ranged("integer", range));
  if (presence == Presence::kOptional) schema["default"] = value;
  put(key, std::move(schema), doc, presence);
}
void FieldSchema::texts(std::string_view key, std::vector<std::string>& value, std::string_view doc,
                        Presence presence) {
  Json schema = one_or_list(Json{{"type", "string"}});
  if (presence == Presence::kOptional) schema["default"] = value;
  put(key, std::move(schema), doc, presence);
}
void FieldSchema::object(std::string_view key, const Describe& describe, std::string_view doc,
                         Presence presence, bool*) {
  put(key, schema_of(describe), doc, presence);
}
void FieldSchema::objects(std::string_view key, size_t size,
                          const std::function<void(size_t)>& resize,
                          const std::function<void(Fields&, size_t)>& describe,
                          std::string_view doc, Presence presence) {
  if (size == 0) resize(1);
  Json element = schema_of([&](Fields& fields) { describe(fields, 0); });
  if (size == 0) resize(0);
  put(key, Json{{"type", "array"}, {"items", std::move(element)}}, doc, presence);
}
void FieldSchema::variant(std::string_view key, std::string& value,
                          const std::vector<Variant>& variants, std::string_view doc,
                          Presence presence) {
  Json name{{"type", "string"}, {"enum", names_of(variants)}};
  if (presence == Presence::kOptional) name["default"] = value;
  put(key, std::move(name), doc, presence);
  for (const Variant& variant : variants) {
    FieldSchema branch;
    branch.put(key, Json{{"const", variant.name}}, variant.doc,
               variant.name == value ? presence : Presence::kRequired);
    variant.describe(branch);
    variants_.push_back(branch.take());
  }
}
void FieldSchema::raw(std::string_view key, Json&, std::string_view doc, Presence presence) {
  put(key, Json::object(), doc, presence);
}
void FieldSchema::choice(std::string_view key, int& index, const std::vector<std::string>& names,
                         std::string_view doc, Presence presence) {
  Json schema{{"type", "string"}, {"enum", names}};
  if (presence == Presence::kOptional) schema["default"] = names[static_cast<size_t>(index)];
  put(key, std::move(schema), doc, presence);
}

Json FieldSchema::take() {
  Json schema{{"type", "object"}, {"properties", properties_}};
  if (!required_.empty()) schema["required"] = required_;
  if (variants_.empty()) {
    schema["patternProperties"] = Json{{kNotePattern, true}};
    schema["additionalProperties"] = false;
    return schema;
  }
  // A branch contains only its own keys. Add the common keys, since the branch rejects others.
  for (Json& branch : variants_)
    for (const auto& [key, value] : properties_.items())
      if (!branch["properties"].contains(key)) branch["properties"][key] = true;
  schema["oneOf"] = std::move(variants_);
  return schema;
}

}  // namespace

Json schema_of(const Describe& describe) {
  FieldSchema schema;
  describe(schema);
  return schema.take();
}

}  // namespace poseidon
