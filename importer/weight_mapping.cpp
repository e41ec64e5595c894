#include "importer/weight_mapping.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "core/counted.h"
#include "core/error.h"
#include "trainer/state/safetensors.h"

namespace poseidon::importer {

namespace {

using trainer::extents_text;
using Values = std::vector<float>;

/// Removes leading extents of 1, because old files store four extents for every tensor.
std::span<const int64_t> without_leading_ones(std::span<const int64_t> extents) {
  while (!extents.empty() && extents[0] == 1) extents = extents.subspan(1);
  return extents;
}

bool is_same_shape(std::span<const int64_t> a, std::span<const int64_t> b) {
  return std::ranges::equal(without_leading_ones(a), without_leading_ones(b));
}

/// Converts (columns, rows) to (rows, columns).
Values transposed(const Values& values, int64_t rows, int64_t columns) {
  Values out(values.size());
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      out[static_cast<size_t>(row * columns + column)] =
          values[static_cast<size_t>(column * rows + row)];
  return out;
}

/// Reverses the channel order of a weight (outputs, channels, ...).
void reverse_channels(Values& values, int64_t outputs, int64_t channels) {
  const int64_t area = static_cast<int64_t>(values.size()) / (outputs * channels);
  for (int64_t output = 0; output < outputs; ++output)
    for (int64_t c = 0; c < channels / 2; ++c) {
      const auto first = values.begin() + (output * channels + c) * area;
      const auto last = values.begin() + (output * channels + channels - 1 - c) * area;
      std::swap_ranges(first, first + area, last);
    }
}

class WeightMapper {
 public:
  WeightMapper(const net::Network& network, const ImportedNetwork& imported,
               std::span<CaffeWeights> weights, const WeightOptions& options, Log& log)
      : network_(network), options_(options), log_(log) {
    for (CaffeWeights& layer : weights) stored_[layer.layer].push_back(&layer);
    for (const ImportedLayer& layer : imported.layers)
      if (layer.phases[Phase::kTrain]) layers_[layer.name()] = &layer;
    for (const net::Node& node : network.nodes()) note_names(node);
  }

  ImportedWeights map() {
    if (stored_.empty()) fail("expected layers with tensors, got none");
    for (const net::Node& node : network_.nodes()) map_parameters(node);
    out_.parameters = out_.tensors.size();
    for (const net::Node& node : network_.nodes()) map_statistics(node);
    if (options_.bgr_to_rgb && !reversed_)
      fail("--bgr-to-rgb: no convolution or InnerProduct reads the images");
    if (out_.tensors.empty()) fail("no layer has the name of a network layer");
    remark_missing();
    remark_unused();
    return std::move(out_);
  }

 private:
  /// Records the Caffe layers of a node with tensors, by name. Layers without tensors do not count,
  /// because parse_caffemodel() omits them.
  void note_names(const net::Node& node) {
    const layers::Definition& definition = *node.definition;
    if (definition.parameters().empty() && definition.statistics().empty()) return;
    const ImportedLayer& layer = *layers_.at(definition.name);
    for (const CaffeLayer* caffe : {layer.source, layer.scale})
      if (caffe != nullptr) layers_of_name_[caffe->name].insert(caffe);
  }

  [[noreturn]] void fail(const std::string& message) const {
    throw ConfigError(options_.file + ": " + message);
  }

  /// Returns the weights of a Caffe layer in the file, and marks them as used; null: none. If
  /// several layers have the same name, the file contains their weights in the network's order.
  CaffeWeights* stored(const CaffeLayer* layer) {
    if (layer == nullptr) return nullptr;
    const auto found = stored_.find(layer->name);
    if (found == stored_.end()) return nullptr;
    const std::set<const CaffeLayer*>& twins = layers_of_name_.at(layer->name);
    const auto index = static_cast<size_t>(std::distance(twins.begin(), twins.find(layer)));
    if (index >= found->second.size()) return nullptr;
    used_.insert(found->second[index]);
    return found->second[index];
  }

  void map_parameters(const net::Node& node) {
    const ImportedLayer& layer = *layers_.at(node.definition->name);
    if (node.shares >= 0) stored(layer.source);  // marks its copy of the shared values as used
    const std::vector<layers::ParameterSpec> specs = node.parameters();
    if (specs.empty()) return;
    if (node.definition->type() == "batch_norm") return map_scale(node, layer, specs);
    CaffeWeights* weights = stored(layer.source);
    if (weights == nullptr) return missing_.push_back(layer.source);
    expect_count(*weights, specs.size());
    for (size_t i = 0; i < specs.size(); ++i) map_tensor(node, layer, specs[i], weights->blobs[i]);
  }

  void expect_count(const CaffeWeights& weights, size_t count) const {
    if (weights.blobs.size() != count)
      fail(text("layer \"", weights.layer, "\": expected ", counted(count, "tensor"), ", got ",
                weights.blobs.size()));
  }

  void expect_shape(const std::string& name, const Shape& shape,
                    std::span<const int64_t> got) const {
    if (!is_same_shape(shape.extents(), got))
      fail(text("tensor \"", name, "\": expected the shape ", extents_text(shape.extents()),
                ", got ", extents_text(got)));
  }

  void map_tensor(const net::Node& node, const ImportedLayer& layer,
                  const layers::ParameterSpec& spec, CaffeBlob& blob) {
    const std::string name = node.definition->name + "." + spec.name;
    const bool stored_transposed =
        spec.name == "weight" && layer.source->type == "InnerProduct" &&
        layer.source->message.message("inner_product_param").boolean("transpose").value_or(false);
    Values values = std::move(blob.values);
    if (stored_transposed) {
      expect_shape(name, {spec.shape[1], spec.shape[0]}, blob.shape);
      values = transposed(values, spec.shape[0], spec.shape[1]);
    } else {
      expect_shape(name, spec.shape, blob.shape);
    }
    if (options_.bgr_to_rgb && reads_images(node)) reverse(node, spec, values);
    add(name, spec.shape, std::move(values));
  }

  static bool reads_images(const net::Node& node) {
    return node.inputs.size() == 1 && node.inputs[0] == net::kNetworkInput;
  }

  void reverse(const net::Node& node, const layers::ParameterSpec& spec, Values& values) {
    const std::string_view type = node.definition->type();
    const int64_t channels = network_.input().channels();
    if (spec.name != "weight") return;
    const bool one_group = type == "linear" || (type == "convolution" && spec.shape[1] == channels);
    if (!one_group)
      fail(text("layer \"", node.definition->name,
                "\" reads the images: --bgr-to-rgb requires a convolution in one group or an "
                "InnerProduct"));
    reverse_channels(values, spec.shape[0], channels);
    reversed_ = true;
  }

  /// Maps scale and shift of a batch norm from the Scale layer that was merged into it. Without a
  /// Scale layer, the scale is 1 and the shift 0. The shift is also 0 if the Scale layer has no
  /// bias.
  void map_scale(const net::Node& node, const ImportedLayer& layer,
                 const std::vector<layers::ParameterSpec>& specs) {
    CaffeWeights* weights = stored(layer.scale);
    if (layer.scale != nullptr && weights == nullptr) return missing_.push_back(layer.scale);
    for (size_t i = 0; i < specs.size(); ++i) {
      const std::string name = node.definition->name + "." + specs[i].name;
      if (weights != nullptr && i < weights->blobs.size()) {
        expect_shape(name, specs[i].shape, weights->blobs[i].shape);
        add(name, specs[i].shape, std::move(weights->blobs[i].values));
      } else {
        add(name, specs[i].shape,
            Values(static_cast<size_t>(specs[i].shape.count()), i == 0 ? 1.0F : 0.0F));
      }
    }
  }

  /// Maps the running mean and variance of a batch norm. Caffe stores their sums, and a third
  /// tensor with the common divisor. A divisor of 0 yields 0.
  void map_statistics(const net::Node& node) {
    const std::vector<layers::StatisticSpec> specs = node.definition->statistics();
    if (specs.empty()) return;
    const ImportedLayer& layer = *layers_.at(node.definition->name);
    CaffeWeights* weights = stored(layer.source);
    if (weights == nullptr) return missing_.push_back(layer.source);
    expect_count(*weights, specs.size() + 1);
    const Values& factor = weights->blobs.back().values;
    if (factor.size() != 1)
      fail(text("layer \"", weights->layer, "\": expected a third tensor of 1 value, got ",
                factor.size()));
    const float divisor = factor[0];
    for (size_t i = 0; i < specs.size(); ++i) {
      const std::string name = node.definition->name + "." + specs[i].name;
      expect_shape(name, specs[i].shape, weights->blobs[i].shape);
      Values values = std::move(weights->blobs[i].values);
      for (float& value : values) value = divisor == 0 ? 0 : value / divisor;
      add(name, specs[i].shape, std::move(values));
    }
  }

  void add(const std::string& name, const Shape& shape, Values values) {
    if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); }))
      fail(text("tensor \"", name, "\" holds a value that is not finite"));
    const auto kept = std::make_shared<const Values>(std::move(values));
    out_.tensors.push_back(
        {.name = name,
         .shape = shape,
         .get = [kept](std::span<float> to) { std::ranges::copy(*kept, to.begin()); },
         .set = nullptr});
  }

  void remark_missing() {
    for (const CaffeLayer* layer : missing_)
      log_.warning(text(options_.file, ": ", layer->shown(),
                        " has no weights in this file: its fillers set the initial values"));
  }

  void remark_unused() {
    for (const auto& [name, same] : stored_)
      for (const CaffeWeights* layer : same)
        if (!used_.contains(layer))
          log_.info(text(options_.file, ": the weights of \"", name,
                         "\" are ignored: the network has no ",
                         same.size() > 1 ? "further" : "such", " layer",
                         same.size() > 1 ? " of that name" : ""));
  }

  const net::Network& network_;
  const WeightOptions& options_;
  Log& log_;
  std::map<std::string, std::vector<CaffeWeights*>> stored_;  ///< by Caffe's layer names
  /// Caffe layers with tensors, by name. CaffeNetwork stores its layers in one array, so the order
  /// of the pointers is the network's order.
  std::map<std::string, std::set<const CaffeLayer*>> layers_of_name_;
  std::map<std::string, const ImportedLayer*> layers_;  ///< by Poseidon's layer names
  std::set<const CaffeWeights*> used_;
  std::vector<const CaffeLayer*> missing_;
  ImportedWeights out_;
  bool reversed_ = false;
};

}  // namespace

ImportedWeights map_weights(const net::Network& network, const ImportedNetwork& imported,
                            std::vector<CaffeWeights> weights, const WeightOptions& options,
                            Log& log) {
  return WeightMapper(network, imported, weights, options, log).map();
}

}  // namespace poseidon::importer
