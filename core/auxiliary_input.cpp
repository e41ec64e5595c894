#include "core/auxiliary_input.h"

#include <algorithm>
#include <cctype>

#include "core/error.h"

namespace poseidon {

namespace {

constexpr size_t kMaxAuxiliaryInputs = 256;
constexpr size_t kMaxNameBytes = 100;
constexpr int64_t kMaxExtent = int64_t{1} << 28;

bool is_name(const std::string& name) {
  return !name.empty() && name.size() <= kMaxNameBytes &&
         std::ranges::all_of(name, [](unsigned char c) {
           return (c < 128 && std::isalnum(c) != 0) || c == '_' || c == '-';
         });
}

std::string fault_of_name(std::span<const AuxiliaryInput> before, const std::string& name) {
  if (name == "input" || name == "label")
    return text("\"", name, "\" is reserved for the samples' ",
                name == "input" ? "images" : "labels");
  if (!is_name(name))
    return text("expected 1 to ", kMaxNameBytes, R"( letters, digits, "_" or "-", got ")",
                name.substr(0, kMaxNameBytes), "\"");
  if (std::ranges::find(before, name, &AuxiliaryInput::name) != before.end())
    return text("the name \"", name, "\" is used twice");
  return "";
}

/// Returns the error in a shape, or "". Adds the number of values of this input to `values`, the
/// number in the preceding inputs.
std::string fault_of_shape(const std::vector<int64_t>& extents, int64_t& values) {
  if (extents.size() != 1 && extents.size() != 3)
    return text("expected [channels, height, width] or [values], got ", extents.size(), " numbers");
  int64_t count = 1;
  for (const int64_t extent : extents)
    if (extent < 1 || __builtin_mul_overflow(count, extent, &count)) count = kMaxExtent;
  values += std::min(count, kMaxExtent);
  if (values >= kMaxExtent)
    return "expected fewer than 2^28 values in all auxiliary inputs together";
  return "";
}

}  // namespace

Shape AuxiliaryInput::batch_shape(int64_t samples) const {
  std::vector<int64_t> all{samples};
  all.insert(all.end(), extents.begin(), extents.end());
  return Shape(all);
}

int64_t count_of(std::span<const AuxiliaryInput> extras) {
  int64_t count = 0;
  for (const AuxiliaryInput& extra : extras) count += extra.count();
  return count;
}

std::string text_of(std::span<const AuxiliaryInput> extras) {
  std::string out;
  for (const AuxiliaryInput& extra : extras)
    out += text(out.empty() ? "" : ", ", extra.name, " ", extra.shape().text());
  return out.empty() ? "none" : out;
}

void describe_auxiliary_inputs(Fields& fields, std::string_view key,
                               std::vector<AuxiliaryInput>& extras, std::string_view doc) {
  fields.objects(
      key, extras.size(), [&](size_t count) { extras.resize(count); },
      [&](Fields& inner, size_t i) {
        inner.text("name", extras[i].name, "1 to 100 letters, digits, \"_\" or \"-\"",
                   Presence::kRequired);
        inner.integers("shape", extras[i].extents, between(1, static_cast<double>(kMaxExtent - 1)),
                       "[channels, height, width] or [values] per sample", Presence::kRequired);
      },
      doc);
}

AuxiliaryInputError first_error_in(std::span<const AuxiliaryInput> extras) {
  if (extras.size() > kMaxAuxiliaryInputs)
    return {"", text("expected at most ", kMaxAuxiliaryInputs, " auxiliary inputs, got ",
                     extras.size())};
  int64_t values = 0;
  for (size_t i = 0; i < extras.size(); ++i) {
    const std::string place = text("/", i);
    if (const std::string name = fault_of_name(extras.first(i), extras[i].name); !name.empty())
      return {place + "/name", name};
    if (const std::string shape = fault_of_shape(extras[i].extents, values); !shape.empty())
      return {place + "/shape", shape};
  }
  return {};
}

}  // namespace poseidon
