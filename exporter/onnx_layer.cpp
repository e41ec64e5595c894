#include "exporter/onnx_layer.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/error.h"
#include "exporter/batch_norm_folding.h"
#include "net/blocks.h"

namespace poseidon::exporter {

namespace {

/// Returns a function that writes the bytes of `values`.
template <class Value>
WireWriter::Fill fill_with(std::vector<Value> values) {
  return [values = std::move(values)](std::span<std::byte> to) {
    std::ranges::copy(std::as_bytes(std::span(values)), to.begin());
  };
}

std::vector<int64_t> extents_of(const Shape& shape) {
  return {shape.extents().begin(), shape.extents().end()};
}

}  // namespace

OnnxLayer::OnnxLayer(const TrainedWeights& trained, const net::Node& node, const net::Node* norm,
                     OnnxModel& model)
    : trained_(trained), node_(node), norm_(norm), model_(model) {}

const std::string& OnnxLayer::name_of(int node) const {
  return trained_.network().in_test().nodes()[static_cast<size_t>(node)].definition->name;
}

std::string OnnxLayer::input(size_t index) const {
  const int from = node_.inputs[index];
  if (from == net::kNetworkLabel)
    refuse("it reads labels, but an ONNX model has no input for labels");
  return net::source_name(trained_.network().in_test(), from);
}

OnnxLayer::Names OnnxLayer::inputs() const {
  Names names;
  for (size_t i = 0; i < input_count(); ++i) names.push_back(input(i));
  return names;
}

Shape OnnxLayer::input_shape(size_t index) const {
  return trained_.network().in_test().shape_of(node_.inputs[index]);
}

bool OnnxLayer::has_parameter(std::string_view name) const {
  return std::ranges::any_of(node_.definition->parameters(),
                             [&](const layers::ParameterSpec& spec) { return spec.name == name; });
}

std::string OnnxLayer::trained(const std::string& name) {
  const std::string& owner = node_.shares < 0 ? node_.definition->name : name_of(node_.shares);
  std::vector<int64_t> extents;
  for (const layers::ParameterSpec& spec : node_.definition->parameters())
    if (spec.name == name) extents = extents_of(spec.shape);
  for (const layers::StatisticSpec& spec : node_.definition->statistics())
    if (spec.name == name) return trained(name, extents_of(spec.shape));
  const std::string full = owner + "." + name;
  if (std::ranges::find(model_.tensors, full, &OnnxTensor::name) != model_.tensors.end())
    return full;
  return add_floats(full, std::move(extents),
                    [this_weights = &trained_, full] { return this_weights->read(full); });
}

std::string OnnxLayer::trained(const std::string& name, std::vector<int64_t> extents) {
  const bool of_parameter = has_parameter(name);
  const std::string& owner =
      of_parameter && node_.shares >= 0 ? name_of(node_.shares) : node_.definition->name;
  return add_floats(
      node_.definition->name + "." + name, std::move(extents),
      [weights = &trained_, full = owner + "." + name] { return weights->read(full); });
}

OnnxLayer::Names OnnxLayer::weights() {
  if (norm_ == nullptr) {
    Names names{trained("weight")};
    if (has_parameter("bias")) names.push_back(trained("bias"));
    return names;
  }
  const std::vector<layers::ParameterSpec> specs = node_.definition->parameters();
  const std::string prefix = node_.definition->name + ".";
  return {add_floats(prefix + "weight", extents_of(specs[0].shape),
                     [this_weights = &trained_, node = &node_, norm = norm_] {
                       return folded_weight(*this_weights, *node, *norm);
                     }),
          add_floats(prefix + "bias", {specs[0].shape[0]},
                     [this_weights = &trained_, node = &node_, norm = norm_] {
                       return folded_bias(*this_weights, *node, *norm);
                     })};
}

std::string OnnxLayer::add_floats(std::string name, std::vector<int64_t> extents,
                                  std::function<std::vector<float>()> values) {
  model_.tensors.push_back(
      {.name = name,
       .type = OnnxType::kFloat,
       .extents = std::move(extents),
       .fill = [values = std::move(values)](std::span<std::byte> to) { fill_with(values())(to); }});
  return name;
}

std::string OnnxLayer::scalar(double value) {
  return add_floats(next_name(), {},
                    [value] { return std::vector<float>{static_cast<float>(value)}; });
}

std::string OnnxLayer::integers(std::vector<int64_t> values) {
  const std::string name = next_name();
  model_.tensors.push_back({.name = name,
                            .type = OnnxType::kInt64,
                            .extents = {static_cast<int64_t>(values.size())},
                            .fill = fill_with(std::move(values))});
  return name;
}

/// The name is unique, because the name of a layer never contains two consecutive dots.
std::string OnnxLayer::next_name() { return text(node_.definition->name, "..", ++made_); }

const std::string& OnnxLayer::output_name() const {
  return norm_ == nullptr ? node_.definition->name : norm_->definition->name;
}

std::string OnnxLayer::put(const std::string& type, Names inputs, OnnxAttributes attributes) {
  const std::string name = next_name();
  model_.nodes.push_back({type, name, std::move(inputs), {name}, std::move(attributes)});
  return name;
}

OnnxLayer::Names OnnxLayer::put_two(const std::string& type, Names inputs,
                                    OnnxAttributes attributes) {
  const Names outputs{next_name(), next_name()};
  model_.nodes.push_back({type, outputs[0], std::move(inputs), outputs, std::move(attributes)});
  return outputs;
}

void OnnxLayer::finish(const std::string& type, Names inputs, OnnxAttributes attributes) {
  const std::string& name = output_name();
  model_.nodes.push_back({type, name, std::move(inputs), {name}, std::move(attributes)});
}

void OnnxLayer::refuse(const std::string& why) const {
  throw ConfigError(text(trained_.network().file(), ": layer \"", node_.definition->name,
                         "\" of type ", node_.definition->type(),
                         " cannot be exported to ONNX: ", why));
}

}  // namespace poseidon::exporter
