#include "trainer/job/reference.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <vector>

#include "core/error.h"
#include "trainer/job/config.h"

namespace poseidon::trainer {

namespace {

std::string code(const std::string& name) { return text("`", name, "`"); }

/// The description of a key or variant as a cell of a Markdown table, with escaped bars.
std::string description_cell(const Json& schema) {
  std::string out;
  for (const char c : schema.value("description", "")) out += c == '|' ? "\\|" : std::string(1, c);
  return out;
}

std::string bound_text(const Json& bound) {
  const auto value = bound.get<double>();
  const auto whole = static_cast<int64_t>(value);
  return value == static_cast<double>(whole) ? std::to_string(whole) : bound.dump();
}

/// Text such as " >= 1" or ", 1 to 64"; empty without bounds.
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

template <class Texts>
std::string joined(const Texts& texts, const std::string& separator) {
  std::string out;
  for (const std::string& each : texts) out += (out.empty() ? "" : separator) + each;
  return out;
}

/// The anchor that GitHub creates for a heading.
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

/// Adds a text such as "`split` is `"test"` by default" for each key whose default differs from
/// that in `first`. Both schemas have the same keys.
void list_other_defaults(const Json& first, const Json& schema, std::set<std::string>& out) {
  for (const auto& [key, field] : schema.items()) {
    const Json& before = schema.is_array() ? first[std::stoul(key)] : first[key];
    if (!field.is_structured()) continue;
    if (field.is_object() && field.contains("default") && field["default"] != before["default"])
      out.insert(text(code(key), " is ", code(field["default"].dump()), " by default"));
    list_other_defaults(before, field, out);
  }
}

/// A variant of an object. The value `name` of the key `key`, such as "type", selects the variant.
struct Variant {
  std::string key, name;
  const Json& schema;

  std::string description() const { return description_cell(schema["properties"][key]); }
};

std::vector<Variant> variants_of(const Json& schema) {
  std::vector<Variant> variants;
  if (!schema.contains("oneOf")) return variants;
  for (const Json& branch : schema["oneOf"]) {
    if (!branch.contains("properties")) continue;
    for (const auto& [key, field] : branch["properties"].items())
      if (field.is_object() && field.contains("const"))
        variants.push_back({key, field["const"].get<std::string>(), branch});
  }
  return variants;
}

std::set<std::string> required_of(const Json& schema) {
  std::set<std::string> names;
  if (schema.contains("required"))
    for (const Json& name : schema["required"]) names.insert(name.get<std::string>());
  return names;
}

/// A key with the same description in several variants, and the names of these variants.
struct CommonKey {
  std::string key;
  Json field;
  bool is_required;
  std::vector<std::string> variants;
};

std::vector<CommonKey> common_keys(const std::vector<Variant>& variants) {
  std::vector<CommonKey> keys;
  for (const Variant& variant : variants) {
    const std::set<std::string> required = required_of(variant.schema);
    for (const auto& [key, field] : variant.schema["properties"].items()) {
      if (!field.is_object() || key == variant.key) continue;
      const bool is_required = required.contains(key);
      const auto same = [&, &name = key, &schema = field](const CommonKey& known) {
        return known.key == name && known.field == schema && known.is_required == is_required;
      };
      const auto known = std::find_if(keys.begin(), keys.end(), same);
      if (known == keys.end())
        keys.push_back({key, field, is_required, {variant.name}});
      else
        known->variants.push_back(variant.name);
    }
  }
  std::erase_if(keys, [](const CommonKey& key) { return key.variants.size() < 2; });
  return keys;
}

/// Text such as "integer >= 1 (`8`)", with the default, or "string (required)".
std::string value_text(const Json& field, bool is_required) {
  if (is_required) return type_text(field) + " (required)";
  return type_text(field) +
         (field.contains("default") ? text(" (", code(field["default"].dump()), ")") : "");
}

/// The variants of the object at `path`, which the page already describes.
struct DescribedVariants {
  std::string path;
  Json schema;
};

class Writer {
 public:
  std::string take() { return std::move(out_); }
  void line(const std::string& content) { out_ += content + "\n"; }

  /// Writes the keys of an object as a table, then its variants and its nested objects, each under
  /// its own heading.
  void object(const std::string& path, const Json& schema, int level) {
    const std::vector<Variant> variants = variants_of(schema);
    table(schema, {}, variants.empty() ? "" : variants.front().key);
    if (!variants.empty()) describe_variants(path, schema, variants, level);
    nested(path, schema, level);
  }

 private:
  static bool is_row(const std::string& key, const Json& field,
                     const std::set<std::string>& hidden) {
    return field.is_object() && !field.contains("const") && !hidden.contains(key);
  }
  static bool has_rows(const Json& schema, const std::set<std::string>& hidden) {
    const auto& fields = schema["properties"].items();
    return std::any_of(fields.begin(), fields.end(), [&](const auto& field) {
      return is_row(field.key(), field.value(), hidden);
    });
  }

  /// Writes one row for each key of an object, except the keys in `hidden`. `selector`: the key
  /// that selects a variant; its values have a separate table.
  void table(const Json& schema, const std::set<std::string>& hidden, const std::string& selector) {
    const std::set<std::string> required = required_of(schema);
    bool empty = true;
    for (const auto& [key, field] : schema["properties"].items()) {
      if (!is_row(key, field, hidden)) continue;
      if (empty) line("\n| key | value | meaning |\n|---|---|---|");
      empty = false;
      line(text("| ", code(key), " | ",
                key == selector ? "see below" : value_text(field, required.contains(key)), " | ",
                description_cell(field), " |"));
    }
  }

  /// Describes equal variants of several objects only once. A later object links to the first
  /// object, and lists the defaults that differ.
  void describe_variants(const std::string& path, const Json& schema,
                         const std::vector<Variant>& variants, int level) {
    const auto [known, is_new] = variants_.emplace(without_defaults(schema["oneOf"]).dump(),
                                                   DescribedVariants{path, schema["oneOf"]});
    if (!is_new) return link_variants(known->second, schema["oneOf"]);
    line(text("\n| ", code(variants.front().key), " | meaning |\n|---|---|"));
    for (const Variant& variant : variants)
      line(text("| ", code(Json(variant.name).dump()), " | ", variant.description(), " |"));
    std::set<std::string> common;
    for (const CommonKey& key : common_keys(variants)) {
      if (common.empty()) line("\n| common key | value | meaning | for |\n|---|---|---|---|");
      common.insert(key.key);
      line(text("| ", code(key.key), " | ", value_text(key.field, key.is_required), " | ",
                description_cell(key.field), " | ",
                key.variants.size() == variants.size() ? "all" : joined(key.variants, ", "), " |"));
    }
    for (const Variant& variant : variants) {
      std::set<std::string> hidden;
      for (const CommonKey& key : common_keys(variants))
        if (std::ranges::count(key.variants, variant.name) > 0) hidden.insert(key.key);
      if (has_rows(variant.schema, hidden)) {
        heading(level,
                text(path, " with ", code(text(Json(variant.key), ": ", Json(variant.name)))));
        table(variant.schema, hidden, "");
      }
      nested(path, variant.schema, level + 1);
    }
  }

  void link_variants(const DescribedVariants& first, const Json& variants) {
    std::set<std::string> defaults;
    list_other_defaults(first.schema, variants, defaults);
    const std::string others = (defaults.empty() ? "" : "; ") + joined(defaults, ", ");
    line(text("\nTypes and keys: [", first.path, "](#", anchor_of(first.path), ")", others, "."));
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
      heading(level, name);
      object(name, inner, std::min(level + 1, 6));
    }
  }

  void heading(int level, const std::string& content) {
    line(text("\n", std::string(static_cast<size_t>(level), '#'), " ", content));
  }

  std::string out_;
  std::set<std::string> described_;
  std::map<std::string, DescribedVariants>
      variants_;  ///< key: JSON text of a "oneOf" schema without defaults
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
      "Defaults "
      "are in parentheses. "
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
