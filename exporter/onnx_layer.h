#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/onnx_graph.h"
#include "exporter/trained_weights.h"

namespace poseidon::exporter {

/// One layer, as a conversion rule (OnnxRule) sees it. The rule reads the layer's properties, and
/// adds ONNX nodes and tensors to the model.
class OnnxLayer {
 public:
  using Names = std::vector<std::string>;

  /// `norm`: the batch norm folded into the layer, or null. All arguments must outlive the object;
  /// `trained` must also outlive the model.
  OnnxLayer(const TrainedWeights& trained, const net::Node& node, const net::Node* norm,
            OnnxModel& model);

  template <class Definition>
  const Definition& definition() const {
    return dynamic_cast<const Definition&>(*node_.definition);
  }
  size_t input_count() const { return node_.inputs.size(); }
  /// Returns the name that an input of the layer has in the model. Throws ConfigError if the input
  /// is the labels.
  std::string input(size_t index = 0) const;
  Names inputs() const;
  Shape input_shape(size_t index = 0) const;
  const Shape& output_shape() const { return node_.output; }
  bool has_parameter(std::string_view name) const;

  // Add tensors to the model. Each function returns the names of its tensors.
  /// Adds a trained parameter or statistic; `name` is its name in the layer, such as "weight". If
  /// layers share it, the model has one tensor. With `extents`, adds a separate tensor that has the
  /// same values and these extents.
  std::string trained(const std::string& name);
  std::string trained(const std::string& name, std::vector<int64_t> extents);
  /// Adds the weight, and the bias if there is one. If a batch norm is folded into the layer, adds
  /// the folded weight and bias.
  Names weights();
  std::string scalar(double value);
  std::string integers(std::vector<int64_t> values);

  /// Adds an intermediate ONNX node of this type. Returns the name of its output.
  std::string put(const std::string& type, Names inputs, OnnxAttributes attributes = {});
  /// Adds an intermediate node with two outputs.
  Names put_two(const std::string& type, Names inputs, OnnxAttributes attributes);
  /// Adds the node that produces the layer's output.
  void finish(const std::string& type, Names inputs, OnnxAttributes attributes = {});

  /// Throws ConfigError that names the layer.
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  const std::string& name_of(int node) const;
  const std::string& output_name() const;
  std::string next_name();
  std::string add_floats(std::string name, std::vector<int64_t> extents,
                         std::function<std::vector<float>()> values);

  const TrainedWeights& trained_;
  const net::Node& node_;
  const net::Node* norm_;
  OnnxModel& model_;
  int made_ = 0;  ///< number of names created for intermediate values
};

using OnnxRule = void (*)(OnnxLayer&);
using OnnxRules = std::map<std::string_view, OnnxRule>;

/// The rules, by layer type. Each of these functions is in a separate source.
OnnxRules onnx_function_rules();
OnnxRules onnx_normalization_rules();
OnnxRules onnx_shape_rules();
OnnxRules onnx_window_rules();

}  // namespace poseidon::exporter
