#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/json.h"
#include "layers/layer.h"
#include "tests/support/device_memory.h"
#include "tests/support/layer_backend.h"

namespace poseidon::test {

/// Step parameters with an arbitrary seed and step.
inline constexpr layers::StepParameters kTestStepParameters{.seed = 7, .step = 3};

/// One layer and the way in which a test makes and calls it.
struct LayerCase {
  Json json;  ///< as in a network file, "type" included
  std::vector<Shape> inputs;
  Layout layout = Layout::kPlain;   ///< layout of the inputs
  DataType type = DataType::kFp32;  ///< data type of activations, and of the inputs
  int threads = 1;
  std::optional<float> relu = std::nullopt;  ///< negative slope of a fused ReLU
  bool residual = false;                     ///< add a fused residual: the last of `inputs`
  bool training = true;
  bool in_place = false;  ///< share memory between input and output where the layer allows it
  std::vector<bool> input_needs_gradient = {};  ///< empty: all
  layers::AlgorithmChoice choice = {};
  layers::StepContext step = {};  ///< LayerRunner sets `numbers` from the next field
  layers::StepParameters numbers = kTestStepParameters;
  LayerBackendMaker backend = make_layer_backend;
};

/// Values that a layer reads, in canonical order.
struct LayerInputs {
  std::vector<Values> inputs = {};
  std::vector<Values> parameters = {};
  std::vector<Values> statistics = {};
  /// One per consumer of the output. Empty for a loss layer.
  std::vector<Values> output_gradients = {};
};

/// Values that a layer writes, in canonical order.
struct LayerResults {
  Values output;
  std::vector<Values> input_gradients;  ///< empty for an input that needs no gradient
  std::vector<Values> parameter_gradients;
  std::vector<Values> statistics;  ///< this batch's contributions
};

/// Makes one layer by its definition and the factory, and calls it as the net does. All memory that
/// the layer gets is filled with NaN first, so a missing write is visible. Padding lanes of outputs
/// and gradients must be zero.
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
  int label_ = -1;  ///< index of the input with the labels of case_.step; -1: none
  LayerBackend backend_;
  std::unique_ptr<layers::Definition> definition_;
  Shape output_shape_;
  std::unique_ptr<layers::Layer> layer_;
};

/// Reads the definition of a layer as from a network file, and infers its shapes. Stores the
/// output's shape in `output` unless it is null. Throws ConfigError.
std::unique_ptr<layers::Definition> define(const Json& json, const std::vector<Shape>& inputs,
                                           Shape* output = nullptr);

/// Uniform in [low, high), a function of `seed`.
Values random_values(int64_t count, uint64_t seed, float low = -1, float high = 1);
/// Random inputs, parameters, statistics (positive) and `contributions` output gradients.
LayerInputs random_inputs(const LayerRunner& runner, const LayerCase& layer_case,
                          size_t contributions, uint64_t seed = 1);

}  // namespace poseidon::test
