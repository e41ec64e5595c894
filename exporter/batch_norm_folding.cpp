#include "exporter/batch_norm_folding.h"

#include <algorithm>
#include <cmath>

#include "layers/batch_norm.h"

namespace poseidon::exporter {

namespace {

bool has_own_parameters(const net::Node& node) { return node.shares < 0 && !node.is_shared; }

bool takes_norm(const net::Node& node) {
  const std::string_view type = node.definition->type();
  return has_own_parameters(node) && (type == "convolution" || type == "linear");
}

/// Returns the factor of each channel: scale / sqrt(variance + epsilon), in double precision.
std::vector<double> factors_of(const TrainedWeights& trained, const net::Node& norm) {
  const auto& definition = dynamic_cast<const layers::BatchNorm&>(*norm.definition);
  const std::vector<float> scale = trained.read(definition.name + ".scale"),
                           variance = trained.read(definition.name + ".running_var");
  std::vector<double> factors;
  for (size_t channel = 0; channel < scale.size(); ++channel)
    factors.push_back(scale[channel] / std::sqrt(variance[channel] + definition.epsilon));
  return factors;
}

}  // namespace

std::vector<const net::Node*> foldable_norms(const net::Network& network,
                                             const std::vector<int>& outputs) {
  const std::vector<net::Node>& nodes = network.nodes();
  std::vector<int> readers(nodes.size(), 0);
  for (const net::Node& node : nodes)
    for (const int input : node.inputs)
      if (input >= 0) ++readers[static_cast<size_t>(input)];
  for (const int output : outputs) ++readers[static_cast<size_t>(output)];
  std::vector<const net::Node*> norms(nodes.size(), nullptr);
  for (const net::Node& node : nodes) {
    if (node.definition->type() != "batch_norm" || !has_own_parameters(node)) continue;
    if (node.inputs[0] < 0) continue;
    const auto before = static_cast<size_t>(node.inputs[0]);
    if (readers[before] == 1 && takes_norm(nodes[before])) norms[before] = &node;
  }
  return norms;
}

std::vector<float> folded_weight(const TrainedWeights& trained, const net::Node& node,
                                 const net::Node& norm) {
  std::vector<float> weight = trained.read(node.definition->name + ".weight");
  const std::vector<double> factors = factors_of(trained, norm);
  const size_t row = weight.size() / factors.size();
  for (size_t i = 0; i < weight.size(); ++i)
    weight[i] = static_cast<float>(weight[i] * factors[i / row]);
  return weight;
}

std::vector<float> folded_bias(const TrainedWeights& trained, const net::Node& node,
                               const net::Node& norm) {
  const std::vector<double> factors = factors_of(trained, norm);
  std::vector<float> bias(factors.size(), 0);
  if (node.parameters().size() > 1) bias = trained.read(node.definition->name + ".bias");
  const std::vector<float> mean = trained.read(norm.definition->name + ".running_mean"),
                           shift = trained.read(norm.definition->name + ".shift");
  for (size_t i = 0; i < bias.size(); ++i)
    bias[i] = static_cast<float>((static_cast<double>(bias[i]) - mean[i]) * factors[i] + shift[i]);
  return bias;
}

}  // namespace poseidon::exporter
