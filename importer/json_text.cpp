#include "importer/json_text.h"

#include "core/json.h"

namespace poseidon::importer {

namespace {

constexpr size_t kColumns = 100;

/// Joins the elements of a list or an object. `element` formats one value; `between` is the
/// separator.
template <class Element>
std::string joined(const Json& json, const std::string& between, const Element& element) {
  std::string out;
  for (const auto& [key, value] : json.items()) {
    if (!out.empty()) out += between;
    if (json.is_object()) out += Json(key).dump() + ": ";
    out += element(value);
  }
  return out;
}

std::string enclosed(const Json& json, const std::string& inside) {
  return json.is_object() ? "{" + inside + "}" : "[" + inside + "]";
}

std::string one_line(const Json& json) {
  if (!json.is_structured()) return json.dump();
  return enclosed(json, joined(json, ", ", [](const Json& value) { return one_line(value); }));
}

std::string lines(const Json& json, size_t indent) {
  std::string whole = one_line(json);
  if (!json.is_structured() || (indent > 0 && indent + whole.size() <= kColumns)) return whole;
  const std::string outer = "\n" + std::string(indent, ' '), inner = outer + "  ";
  const std::string inside =
      joined(json, "," + inner, [&](const Json& value) { return lines(value, indent + 2); });
  return enclosed(json, inner + inside + outer);
}

}  // namespace

std::string json_text(const Json& json) { return lines(json, 0) + "\n"; }

}  // namespace poseidon::importer
