#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/json.h"
#include "layers/layer.h"
#include "tests/support/device_memory.h"
#include "tests/support/layer_backend.h"

namespace poseidon::test {

/// Of some seed and step.
inline constexpr layers::StepNumbers kUsualNumbers{.seed = 7, .step = 3};

/// One layer as a test wants it made and called.
struct LayerCase {
  Json json;  ///< as in a network file, "type" included
  std::vector<Shape> inputs;
  Layout layout = Layout::kPlain;   ///< in which the producers of its inputs give them
  DataType type = DataType::kFp32;  ///< of its device's activations, and so of what they give
  int threads = 1;
  std::optional<float> relu = std::nullopt;  ///< fused
  bool residual = false;                     ///< fused: the last of `inputs`
  bool training = true;
  bool in_place = false;  ///< share memory between input and output where the layer allows it
  std::vector<bool> input_needs_gradient = {};  ///< empty: all
  layers::Choice choice = {};
  layers::StepContext step = {};  ///< whose numbers are those that follow
  layers::StepNumbers numbers = kUsualNumbers;
  LayerBackendMaker backend = make_layer_backend;
};

/// What goes in, in canonical order.
struct LayerInputs {
  std::vector<Values> inputs = {};
  std::vector<Values> parameters = {};
  std::vector<Values> statistics = {};
  /// The contributions that the output's consumers leave; none for a loss.
  std::vector<Values> output_gradients = {};
};

/// What comes out, in canonical order.
struct LayerResults {
  Values output;
  std::vector<Values> input_gradients;  ///< empty where none was wanted
  std::vector<Values> parameter_gradients;
  std::vector<Values> statistics;  ///< this batch's contributions
};

/// Makes one layer through its definition and the factory and calls it, as the net would. All
/// memory it hands to the layer is filled with NaN first, so what a layer should write and does not
/// is seen. Padding lanes of its outputs and gradients are checked to be zero.
class LayerRunner {
 public:
  explicit LayerRunner(const LayerCase& layer_case);

  const layers::Definition& definition() const { return *definition_; }
  const layers::Needs& needs() const { return layer_->needs(); }
  const layers::Layer& layer() const { return *layer_; }
  Device& device() const { return *backend_.device; }
  const Shape& output_shape() const { return output_shape_; }
  std::vector<Shape> parameter_shapes() const;
  std::vector<Shape> statistic_shapes() const;

  Values forward(const LayerInputs& values);
  /// Forward, then backward of the same batch.
  LayerResults run(const LayerInputs& values);

 private:
  struct Memory;
  void add_label_input();
  void check_labels() const;
  void bind(const LayerInputs& values, Memory& memory) const;
  void bind_backward(const LayerInputs& values, Memory& memory) const;
  void check_packed_padding(int index, const float* packed, const float* canonical,
                            Memory& memory) const;
  bool wants_gradient(size_t input) const;

  LayerCase case_;
  int label_ = -1;  ///< the input that is the labels of the case's step
  LayerBackend backend_;
  std::unique_ptr<layers::Definition> definition_;
  Shape output_shape_;
  std::unique_ptr<layers::Layer> layer_;
};

/// The definition of a layer, read as a network file would be, with the shapes inferred. Throws
/// ConfigError. `output`, where given, becomes the output's shape.
std::unique_ptr<layers::Definition> define(const Json& json, const std::vector<Shape>& inputs,
                                           Shape* output = nullptr);

/// Uniform in [low, high), a function of `seed`.
Values random_values(int64_t count, uint64_t seed, float low = -1, float high = 1);
/// Random inputs, parameters, statistics (positive) and `contributions` output gradients.
LayerInputs random_inputs(const LayerRunner& runner, const LayerCase& layer_case,
                          size_t contributions, uint64_t seed = 1);

}  // namespace poseidon::test
