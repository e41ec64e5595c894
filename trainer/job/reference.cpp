#include "trainer/job/reference.h"

#include <cctype>
#include <map>
#include <set>

#include "core/error.h"
#include "trainer/job/config.h"

namespace poseidon::trainer {

namespace {

std::string code(const std::string& name) { return text("`", name, "`"); }

std::string bound_text(const Json& bound) {
  const auto value = bound.get<double>();
  const auto whole = static_cast<int64_t>(value);
  return value == static_cast<double>(whole) ? std::to_string(whole) : bound.dump();
}

/// Text such as " >= 1" or ", 1 to 64", or nothing.
std::string bounds_text(const Json& schema) {
  const bool above = schema.contains("exclusiveMinimum");
  const Json low = schema.value(above ? "exclusiveMinimum" : "minimum", Json());
  const Json high = schema.value("maximum", Json());
  const std::string low_text = low.is_null() ? "" : bound_text(low);
  if (low.is_null()) return high.is_null() ? "" : text(" <= ", bound_text(high));
  if (high.is_null()) return text(above ? " > " : " >= ", low_text);
  return text(", ", above ? "above " : "", low_text, " to ", bound_text(high));
}

/// Text such as "integer >= 1", "one of ..." or "number, or a list".
std::string type_text(const Json& schema) {
  if (schema.contains("enum")) {
    std::string out = "one of";
    for (const Json& name : schema["enum"]) out += text(" ", code(name.dump()));
    return out;
  }
  if (schema.contains("anyOf")) return type_text(schema["anyOf"][0]) + ", or a list";
  if (!schema.contains("type")) return "any";
  return schema["type"].get<std::string>() + bounds_text(schema);
}

/// Of a heading, as GitHub makes it.
std::string anchor_of(const std::string& heading) {
  std::string anchor;
  for (const char c : heading)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-')
      anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return anchor;
}

Json without_defaults(Json schema) {
  if (schema.is_object()) schema.erase("default");
  if (schema.is_structured())
    for (Json& each : schema) each = without_defaults(std::move(each));
  return schema;
}

/// "`split` is `"test"` by default" for each key of a schema that has another default in `first`, a
/// schema of the same keys.
void list_other_defaults(const Json& first, const Json& schema, std::set<std::string>& out) {
  for (const auto& [key, field] : schema.items()) {
    const Json& before = schema.is_array() ? first[std::stoul(key)] : first[key];
    if (!field.is_structured()) continue;
    if (field.is_object() && field.contains("default") && field["default"] != before["default"])
      out.insert(text(code(key), " is ", code(field["default"].dump()), " by default"));
    list_other_defaults(before, field, out);
  }
}

class Writer {
 public:
  std::string take() { return std::move(out_); }
  void line(const std::string& content) { out_ += content + "\n"; }

  /// Writes the keys of an object as a table, then its nested objects, each under its own heading.
  void object(const std::string& path, const Json& schema, int level) {
    table(schema, required_of(schema), {});
    if (schema.contains("oneOf")) variants(path, schema, level);
    nested(path, schema, level);
  }

 private:
  static std::set<std::string> required_of(const Json& schema) {
    std::set<std::string> names;
    if (schema.contains("required"))
      for (const Json& name : schema["required"]) names.insert(name.get<std::string>());
    return names;
  }

  void table(const Json& schema, const std::set<std::string>& required,
             const std::set<std::string>& hidden) {
    bool empty = true;
    for (const auto& [key, field] : schema["properties"].items()) {
      if (!field.is_object() || hidden.contains(key)) continue;
      if (empty) line("\n| key | value | default | meaning |\n|---|---|---|---|");
      empty = false;
      const std::string standard = required.contains(key)      ? "required"
                                   : field.contains("default") ? code(field["default"].dump())
                                                               : "";
      line(text("| ", code(key), " | ", type_text(field), " | ", standard, " | ",
                field.value("description", ""), " |"));
    }
    if (empty) line("\nNo other keys.");
  }

  /// Describes variants once. A later object with the same variants links to the first one, and
  /// lists the defaults that differ.
  void variants(const std::string& path, const Json& schema, int level) {
    const Json& variants = schema["oneOf"];
    const auto [known, is_new] =
        variants_.emplace(without_defaults(variants).dump(), Variants{path, variants});
    if (!is_new) {
      const Variants& first = known->second;
      std::set<std::string> defaults;
      list_other_defaults(first.schema, variants, defaults);
      std::string others;
      for (const std::string& each : defaults) others += (others.empty() ? "; " : ", ") + each;
      return line(text("\nOther keys of each type: [", first.path, "](#", anchor_of(first.path),
                       ")", others, "."));
    }
    for (const Json& branch : schema["oneOf"]) {
      if (!branch.contains("properties")) continue;
      for (const auto& [key, field] : branch["properties"].items()) {
        if (!field.is_object() || !field.contains("const")) continue;
        line(text("\n", std::string(static_cast<size_t>(level), '#'), " ", path, " with ",
                  code(text(Json(key), ": ", field["const"])), "\n"));
        line(field.value("description", ""));
        table(branch, required_of(branch), {key});
        nested(path, branch, level + 1);
      }
    }
  }

  void nested(const std::string& path, const Json& schema, int level) {
    for (const auto& [key, field] : schema["properties"].items()) {
      if (!field.is_object()) continue;
      const bool list = field.contains("items") && field["items"].contains("properties");
      const Json& inner = list ? field["items"] : field;
      if (!inner.contains("properties")) continue;
      const std::string name = text(path, path.empty() ? "" : ".", key, list ? "[]" : "");
      // An object that occurs in several variants (fillers) is described once.
      if (!described_.insert(key + inner.dump()).second) continue;
      line(text("\n", std::string(static_cast<size_t>(level), '#'), " ", name, "\n"));
      line(field.value("description", ""));
      object(name, inner, std::min(level + 1, 6));
    }
  }

  std::string out_;
  std::set<std::string> described_;
  struct Variants {
    std::string path;
    Json schema;
  };
  std::map<std::string, Variants> variants_;  ///< by the schema without defaults
};

}  // namespace

std::string config_reference() {
  Writer writer;
  writer.line("# Job and network files\n");
  writer.line(
      "`poseidon-train --reference` generates this page. JSON Schemas for editors are "
      "`configs/schema/job.schema.json` and `configs/schema/network.schema.json`. Unknown keys are "
      "errors. Comments (`//`, `/* */`) and keys that begin with `_` or `//` are ignored. Relative "
      "paths start at the folder of their file, those of `--set` at the working directory. "
      "Environment variables in paths, `${NAME}`, are replaced.\n");
  writer.line("## Job file");
  writer.object("", job_schema(), 3);
  writer.line(
      "\n`data` needs exactly one of `batch_per_worker` and `global_batch`, `train` exactly one of "
      "`steps` and `epochs`.\n");
  writer.line("## Network file\n");
  writer.line(
      "A key of a layer type without a default is required, in the layer or in `defaults`. Objects "
      "are optional.");
  writer.object("", network_schema(), 3);
  return writer.take();
}

}  // namespace poseidon::trainer
