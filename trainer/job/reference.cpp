#include "trainer/job/reference.h"

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
      if (empty) line("\n| key | value | default | meaning |\n| --- | --- | --- | --- |");
      empty = false;
      const std::string standard = required.contains(key)      ? "required"
                                   : field.contains("default") ? code(field["default"].dump())
                                                               : "";
      line(text("| ", code(key), " | ", type_text(field), " | ", standard, " | ",
                field.value("description", ""), " |"));
    }
    if (empty) line("\nNo further keys.");
  }

  void variants(const std::string& path, const Json& schema, int level) {
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
};

}  // namespace

std::string config_reference() {
  Writer writer;
  writer.line("# Job and network files\n");
  writer.line(
      "Made by `poseidon-train --reference` from the code that reads them; a test holds the "
      "two together. The same as JSON Schema, for editors: `configs/schema/job.schema.json` "
      "and `configs/schema/network.schema.json`. Unknown keys are refused. Comments (`//` and "
      "`/* */`) and keys that begin with `_` or `//` are ignored. Paths are seen "
      "from the folder of the file they stand in, those of `--set` from where you are; "
      "`${VARIABLES}` in them are replaced.\n");
  writer.line("## Job file");
  writer.object("", job_schema(), 3);
  writer.line(
      "\n`data` holds exactly one of `batch_per_worker` and `global_batch`, `train` exactly "
      "one of `steps` and `epochs`.\n");
  writer.line("## Network file\n");
  writer.line("Keys that are marked required may also stand in `defaults`, by layer type.");
  writer.object("", network_schema(), 3);
  return writer.take();
}

}  // namespace poseidon::trainer
