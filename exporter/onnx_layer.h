#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/onnx_graph.h"
#include "exporter/trained_weights.h"

namespace poseidon::exporter {

/// One layer of a network on its way into a model: what its rule asks, and what it puts there.
class OnnxLayer {
 public:
  using Names = std::vector<std::string>;

  /// `norm`: the batch norm that becomes part of the layer, or null. All must outlive it, and
  /// `trained` the model.
  OnnxLayer(const TrainedWeights& trained, const net::Node& node, const net::Node* norm,
            OnnxModel& model);

  template <class Definition>
  const Definition& definition() const {
    return dynamic_cast<const Definition&>(*node_.definition);
  }
  size_t input_count() const { return node_.inputs.size(); }
  /// The name of a value that the layer reads.
  std::string input(size_t index = 0) const;
  Names inputs() const;
  Shape input_shape(size_t index = 0) const;
  const Shape& output_shape() const { return node_.output; }
  bool has_parameter(std::string_view name) const;

  // Tensors of the model; each returns its name.
  /// A parameter or statistic as it was trained; with extents, of other ones than its own.
  std::string trained(const std::string& name);
  std::string trained(const std::string& name, std::vector<int64_t> extents);
  /// The weight, and the bias where there is any, with the batch norm in them.
  Names weights();
  std::string scalar(double value);
  std::string integers(std::vector<int64_t> values);

  /// A node before the last; returns the name of what it gives.
  std::string put(const std::string& type, Names inputs, OnnxAttributes attributes = {});
  /// The same with two results.
  Names put_two(const std::string& type, Names inputs, OnnxAttributes attributes);
  /// The node that gives the layer's output.
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
  int made_ = 0;  ///< names made for what is within the layer
};

using OnnxRule = void (*)(OnnxLayer&);
using OnnxRules = std::map<std::string_view, OnnxRule>;

/// By the layer's type; in files of their own, by what they do.
OnnxRules onnx_function_rules();
OnnxRules onnx_normalization_rules();
OnnxRules onnx_shape_rules();
OnnxRules onnx_window_rules();

}  // namespace poseidon::exporter
