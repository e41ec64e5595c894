#include "importer/torchvision_state.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "importer/expected_tensors.h"

namespace poseidon::importer {

namespace {

/// Converts the name of a tensor in a layer. Only the batch norm's scale and shift have other names
/// in torchvision.
std::string torchvision_suffix(const std::string& name) {
  if (name == "scale") return "weight";
  if (name == "shift") return "bias";
  return name;
}

void add_tensors(const LayerPair& pair, const net::Node& node, std::vector<StateTensor>& tensors) {
  const auto put = [&](const std::string& name, const Shape& shape) {
    tensors.push_back({pair.torchvision_name + "." + torchvision_suffix(name),
                       pair.poseidon_name + "." + name, shape});
  };
  for (const layers::ParameterSpec& spec : node.parameters()) put(spec.name, spec.shape);
  const std::vector<layers::StatisticSpec> statistics = node.definition->statistics();
  for (const layers::StatisticSpec& spec : statistics) put(spec.name, spec.shape);
  if (!statistics.empty())
    tensors.push_back({pair.torchvision_name + ".num_batches_tracked", "", Shape{}});
}

}  // namespace

std::vector<StateTensor> state_tensors(const TorchvisionArch& arch, const net::Network& network) {
  std::map<std::string, const net::Node*> nodes;
  for (const net::Node& node : network.nodes())
    if (!node.parameters().empty()) nodes[node.definition->name] = &node;
  std::vector<StateTensor> tensors;
  NameListing missing, others;
  for (const LayerPair& pair : arch.layers()) {
    const auto found = nodes.find(pair.poseidon_name);
    if (found == nodes.end()) {
      missing.add(text("\"", pair.poseidon_name, "\" for \"", pair.torchvision_name, "\""));
      continue;
    }
    add_tensors(pair, *found->second, tensors);
    nodes.erase(found);
  }
  for (const auto& [name, unused] : nodes) others.add("\"" + name + "\"");
  if (missing.empty() && others.empty()) return tensors;
  throw ConfigError(text(network.file(), ": expected the layers of torchvision's ", arch.name,
                         missing.empty() ? "" : "; missing: ", missing.text(),
                         others.empty() ? "" : "; not in torchvision: ", others.text()));
}

void check_state(const TorchvisionArch& arch, const std::vector<StateTensor>& expected,
                 const trainer::SafetensorsFile& file) {
  const bool counts = std::ranges::any_of(expected, [&](const StateTensor& tensor) {
    return tensor.counts_batches() && file.find(tensor.torchvision_name) != nullptr;
  });
  std::vector<ExpectedTensor> tensors;
  for (const StateTensor& tensor : expected)
    if (counts || !tensor.counts_batches())
      tensors.push_back(
          {tensor.torchvision_name, tensor.counts_batches() ? "I64" : "F32", tensor.shape});
  expect_tensors(file, tensors, text("torchvision's ", arch.name));
}

}  // namespace poseidon::importer
