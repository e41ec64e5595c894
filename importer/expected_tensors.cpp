#include "importer/expected_tensors.h"

#include <algorithm>
#include <set>

#include "core/error.h"

namespace poseidon::importer {

namespace {

/// Returns a text such as "F32 64x3x7x7".
std::string form_text(const std::string& type, std::span<const int64_t> extents) {
  return type + " " + trainer::extents_text(extents);
}

bool fits(const ExpectedTensor& expected, const trainer::SafetensorsFile::Entry& got) {
  const bool floats = expected.type == "F32" && trainer::holds_floats(got.type);
  return (floats || expected.type == got.type) &&
         std::ranges::equal(expected.shape.extents(), got.shape);
}

}  // namespace

std::vector<ExpectedTensor> weights_of(const net::Network& network) {
  std::vector<ExpectedTensor> tensors;
  for (const net::Node& node : network.nodes()) {
    const std::string prefix = node.definition->name + ".";
    for (const layers::ParameterSpec& spec : node.parameters())
      tensors.push_back({prefix + spec.name, "F32", spec.shape});
    for (const layers::StatisticSpec& spec : node.definition->statistics())
      tensors.push_back({prefix + spec.name, "F32", spec.shape});
  }
  return tensors;
}

void expect_tensors(const trainer::SafetensorsFile& file, std::span<const ExpectedTensor> expected,
                    const std::string& owner) {
  NameListing missing, different, unexpected;
  std::set<std::string> known;
  for (const ExpectedTensor& tensor : expected) {
    known.insert(tensor.name);
    const auto* entry = file.find(tensor.name);
    const std::string form = form_text(tensor.type, tensor.shape.extents());
    if (entry == nullptr)
      missing.add(text(tensor.name, " (", form, ")"));
    else if (const std::string got = form_text(entry->type, entry->shape); !fits(tensor, *entry))
      different.add(text(tensor.name, " (expected ", form, ", got ", got, ")"));
  }
  for (const auto& entry : file.entries())
    if (!known.contains(entry.name))
      unexpected.add(text(entry.name, " (", form_text(entry.type, entry.shape), ")"));
  if (missing.empty() && different.empty() && unexpected.empty()) return;
  throw ConfigError(text(file.file().path().string(), ": expected the tensors of ", owner,
                         missing.empty() ? "" : "; missing: ", missing.text(),
                         different.empty() ? "" : "; wrong type or shape: ", different.text(),
                         unexpected.empty() ? "" : "; unexpected: ", unexpected.text()));
}

}  // namespace poseidon::importer
