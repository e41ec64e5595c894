#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/batch_values.h"
#include "core/bf16.h"
#include "core/device.h"
#include "core/fields.h"
#include "core/tensor.h"
#include "layers/filler.h"

/// Each layer consists of two objects. A Definition (such as layers/pooling.h) is independent of
/// devices: JSON fields, geometry, output shape, parameters. A Layer (such as
/// layers/cpu/pooling.cpp) computes on one device.
namespace poseidon::layers {

/// One learnable tensor in canonical dense order. For example, a convolution's weight is (outputs,
/// inputs / groups, kernel height, kernel width).
struct ParameterSpec {
  std::string name;  ///< such as "weight" or "bias"
  Shape shape;
  Filler filler;
  int64_t fan_in = 1;  ///< for the filler: elements of the layer's weight / its first extent
  double learning_rate_multiplier = 1;
  double decay_multiplier = 1;
};

/// One tensor that is tracked, not learned. After each step: value += momentum * (mean of the
/// logical shards' contributions - value).
struct StatisticSpec {
  std::string name;  ///< "running_mean"
  Shape shape;
  float initial = 0;
  double momentum = 0.1;
};

/// The sizes of a layer's factors for one sample. A layer has factors if its parameters' gradients
/// follow from two tensors alone: the deltas, which are the gradient of the output before a fused
/// relu, and the activations, which are the input. The gradient of a bias is the sum of the deltas.
/// - linear: the gradient of the weight is deltas^T x activations.
/// - convolution: deltas and activations are channels last. The gradient of the weight is deltas^T
///   x patches of the activations, with a row for each sample and position of the output.
struct FactorShape {
  int64_t deltas = 0, activations = 0;  ///< values
  bool bias = false;
  int64_t multiply_adds = 0;  ///< of the rebuild of the weight's gradient
};

struct StepContext;

/// One layer of a network file, and the properties that follow from its keys. make_definition
/// (layers/registry.h) creates it.
class Definition {
 public:
  virtual ~Definition() = default;

  virtual std::string_view type() const = 0;
  /// The keys of this type in the network file.
  virtual void describe(Fields& fields) = 0;
  /// Checks the shapes of the inputs, stores the geometry and returns the shape of the output.
  /// net::Network calls infer() once. The first extent of each shape is the batch. Throws
  /// ConfigError through fail().
  virtual Shape infer(std::span<const Shape> inputs) = 0;

  virtual std::vector<ParameterSpec> parameters() const { return {}; }
  virtual std::vector<StatisticSpec> statistics() const { return {}; }
  /// Set if the layer's gradients can be sent as factors.
  virtual std::optional<FactorShape> factors() const { return std::nullopt; }
  /// Multiply-adds of one forward pass over the batch; 0 if negligible.
  virtual int64_t multiply_adds() const { return 0; }
  /// Names of the values that the layer reports for each sample, such as "top1". If there are
  /// names, the layer's output is (samples, names), with one column for each value. No other layer
  /// reads this output. Metrics are averages of the values over the samples.
  virtual std::vector<std::string> scalars() const { return {}; }
  /// Whether the layer is a loss, at which the backward pass starts. The first of scalars() is then
  /// the unscaled loss of each sample.
  virtual bool is_loss() const { return false; }
  /// Factor of a loss in the total loss.
  virtual double loss_weight() const { return 1; }
  /// Index of the input that has the samples' labels; -1 if the layer reads no labels. The label
  /// input is the last input, and a network file may omit it. Its shape is (samples, 1), and its
  /// values are integers, unless samples are mixed (see supports_mixup()). The values do not change
  /// between forward and backward.
  virtual int label_input() const { return -1; }
  /// Whether the layer supports mixed samples (StepContext::mixup_labels). If the job mixes
  /// samples, the label input is (3, samples). The rows are the labels with the larger weight, the
  /// second labels, and the weights of the second labels.
  virtual bool supports_mixup() const { return false; }
  /// Whether the layer is a loss whose first input has the scores or probabilities of classes.
  bool is_loss_of_classes() const { return is_loss() && label_input() == 1; }
  /// Throws RunError at the first label that the layer cannot use. The message contains layer,
  /// sample and label.
  virtual void check_labels(const StepContext&) const {}

  std::string name;

 protected:
  /// Throws ConfigError "[type 'name'] message".
  [[noreturn]] void fail(const std::string& message) const;
  /// Fails unless there are `count` inputs.
  void expect_inputs(std::span<const Shape> inputs, size_t count) const;
};

/// Multipliers for each parameter, in order, as in Caffe's param blocks. Example:
/// "learning_rate_multipliers": [1, 2], "decay_multipliers": [1, 0]. Missing multipliers are 1.
/// apply() throws ConfigError if there are more multipliers than parameters.
struct Multipliers {
  std::vector<double> learning_rate, decay;
  void describe(Fields& fields);
  void apply(std::vector<ParameterSpec>& parameters) const;
};

/// The chosen layout and algorithms of a layer. For an empty field, the device's fixed rule
/// chooses. Values are names that the device's layer defines ("blocked16", "winograd", "direct").
struct AlgorithmChoice {
  std::string layout;
  std::string forward, backward_data, backward_weights;

  void describe(Fields& fields);
  bool operator==(const AlgorithmChoice&) const = default;
};

/// Names of the code that computes each pass of a layer, such as "Poseidon product" or "oneDNN
/// jit:avx2". An empty field: the layer has no such pass. All fields empty: Poseidon's own code
/// (kOwnCode) computes every pass.
struct Implementations {
  std::string forward, backward_data, backward_weights;

  bool operator==(const Implementations&) const = default;
};
inline constexpr const char* kOwnCode = "Poseidon";

enum class Phase : uint8_t { kTrain, kTest };

/// Step parameters: scalars that layers read in each step.
struct StepParameters {
  uint64_t seed = 0;
  int64_t step = 0;
  int64_t first_sample = 0;  ///< index of the batch's first sample in the global batch
};
inline constexpr StepParameters kDefaultStepParameters{};

/// Per-step values that are passed to layers. A caller of Net sets `numbers` to host memory. Net
/// passes `numbers` in device memory to the layers. So a device can capture the layers' work
/// (GraphCapture) and run it again with other step parameters.
struct StepContext {
  Phase phase = Phase::kTrain;
  const StepParameters* numbers = &kDefaultStepParameters;
  /// Host memory; one label for each sample of this batch. Net copies them to the layers' label
  /// input.
  std::span<const int32_t> labels;
  /// Host memory. Empty: no sample of this batch is mixed with another one (mixup, CutMix). Else:
  /// the second labels of all samples, then the weights of the second labels (lambda, 0 to 1/2; 0
  /// if both labels are equal). Layers read these values only in training.
  std::span<const float> mixup_labels = {};
  /// Factor on the gradients of losses. In training: 1 / samples of the global batch.
  float loss_scale = 1;
};

/// A layer's parameter or statistic in device memory, in packed order (see Layer::pack).
struct ParameterMemory {
  float* value = nullptr;
  /// Of a statistic: this batch's contribution. Of a parameter: null if the net does not train.
  float* gradient = nullptr;
  const Bf16* rounded = nullptr;  ///< `value` rounded to bf16, if Layer::reads_rounded
};

/// The factors of one batch, or of several batches in sequence. Dense, with one row for each
/// sample.
struct FactorMemory {
  float* deltas = nullptr;       ///< samples x FactorShape::deltas
  float* activations = nullptr;  ///< samples x FactorShape::activations
};

/// The tensors and the memory of one call of a Layer. The net fills this struct.
struct Bindings {
  std::vector<Tensor> inputs;
  Tensor output;
  /// Backward: one or more gradients from the output's consumers; none for a loss. The layer sums
  /// these gradients, and may overwrite them.
  std::vector<Tensor> output_gradients;
  std::vector<Tensor> input_gradients;  ///< data is null if the gradient is not wanted
  std::vector<ParameterMemory> parameters;
  std::vector<ParameterMemory> statistics;
  std::byte* workspace = nullptr;  ///< unchanged from forward to backward of the same batch
  std::byte* scratch = nullptr;    ///< valid during the call
};

/// Receives segments of gradients while they are still in the cache. `piece` has the elements of
/// parameter `index` from `first` on, in packed order. It is valid only during the call. Several
/// threads may call the sink at the same time, in any order. Each element arrives exactly once.
using GradientSink = std::function<void(int index, int64_t first, std::span<const float> piece)>;

/// Bindings in which only the output gradients are set: `sums`, then `values`. A function that sums
/// output gradients in the memory of the first one then computes sums += values.
Bindings addition_bindings(std::span<const float> values, std::span<float> sums);

/// The requirements of a layer, which do not change after its construction.
struct Needs {
  std::vector<Format> input_formats;  ///< the net reorders an input that has another format
  Format output_format;
  bool backward_reads_inputs = false;  ///< backward reads all inputs except a fused residual
  bool backward_reads_output = false;
  /// forward_in_place: the input whose memory the output may use. backward_in_place: the input
  /// whose gradient may use the memory of output_gradients[0]. -1: none.
  int forward_in_place = -1;
  int backward_in_place = -1;
  size_t workspace_bytes = 0;
  size_t scratch_bytes = 0;
};

/// One layer on one device. A layer overwrites gradients, and never adds to them. Only the compute
/// thread calls a layer.
class Layer {
 public:
  virtual ~Layer() = default;

  const Needs& needs() const { return needs_; }
  const AlgorithmChoice& choice() const { return choice_; }
  /// Other choices that are legal for this geometry and worth timing. Each differs from choice() in
  /// one field.
  virtual std::vector<AlgorithmChoice> alternatives() const { return {}; }
  const Implementations& implementations() const { return implementations_; }

  virtual void forward(const StepContext& step, const Bindings& memory) = 0;
  /// The batch and the phase are the same as in the preceding forward().
  virtual void backward(const StepContext& step, const Bindings& memory) = 0;

  /// Writes the factors of this batch to `factors`, unless its pointers are null. Also sums the
  /// output gradients in output_gradients[0] of `memory`, and multiplies the sum by the derivative
  /// of a fused relu. A layer with LayerRequest::factor_rows > 0 needs this call before each
  /// backward(). backward() reads the sum, and computes only the input gradients.
  virtual void write_factors(const Bindings& memory, const FactorMemory& factors);
  /// For a layer with LayerRequest::factor_rows > 0. Computes the gradients of the layer's
  /// parameters from the stacked factors of LayerRequest::factor_rows samples. With a sink,
  /// rebuild() passes the gradients to the sink, and the contents of the gradients' memory in
  /// `memory` become undefined. Without a sink, rebuild() writes the gradients to this memory. The
  /// bits do not depend on the number of threads.
  virtual void rebuild(const FactorMemory& factors, const Bindings& memory,
                       const GradientSink* sink);

  /// Elements of parameter `index` in packed order, including padding, which is always zero.
  virtual int64_t packed_count(int index) const = 0;
  /// Converts from canonical order to packed order, and back. Packed order is the order in which
  /// the layer stores a parameter.
  virtual void pack(int index, const float* canonical, float* packed) const = 0;
  virtual void unpack(int index, const float* packed, float* canonical) const = 0;
  /// Whether the layer reads ParameterMemory::rounded of parameter `index`. If so, each writer of
  /// the value also writes the rounded value: an update in the same pass, other writers by round().
  virtual bool reads_rounded(int) const { return false; }
  virtual void round(int index, const float* packed, Bf16* rounded) const;
  /// Converts a gradient from canonical to packed order and passes it to `sink`. The gradient's
  /// memory in `memory` becomes undefined. `canonical` must not overlap with this memory.
  virtual void pack_gradient(int index, const float* canonical, const Bindings& memory,
                             const GradientSink& sink) const;
  /// Whether the packed order of a parameter is canonical order, so that pack and unpack only copy.
  virtual bool packed_is_canonical(int index) const = 0;
  /// The name of a parameter's packed order; "": unknown. If two layers of one device return the
  /// same name for parameters of equal shape, they store these parameters in the same order.
  virtual std::string packed_order(int index) const {
    return packed_is_canonical(index) ? "canonical" : "";
  }

  /// A warning for the user, for example that only slow code exists for this geometry. Usually
  /// empty.
  const std::string& warning() const { return warning_; }

 protected:
  std::string warning_;
  Needs needs_;
  AlgorithmChoice choice_;
  Implementations implementations_;
};

/// The arguments of LayerFactory::make.
struct LayerRequest {
  const Definition& definition;
  std::vector<Shape> input_shapes;
  Shape output_shape;
  std::vector<Format> input_formats;  ///< formats of the producers' outputs
  std::vector<bool> input_needs_gradient;
  bool training = true;       ///< backward will be called
  std::optional<float> relu;  ///< apply leaky relu with this negative slope to the output
  bool residual = false;      ///< add the last input to the output, before the relu
  /// If greater than 0: compute factors instead of the parameters' gradients, and rebuild these
  /// gradients from the factors of this many samples.
  int64_t factor_rows = 0;
  AlgorithmChoice choice;
};

/// Writes batches to a net's input on a device with separate memory, in the format that
/// format_for() returned. A batch has fp32 values or pixels. write() converts pixels to the values
/// that data::Transform computes from them.
class BatchInput {
 public:
  virtual ~BatchInput() = default;
  /// Whether a batch of this shape may have pixels.
  virtual bool accepts_pixels(const Shape& shape) const = 0;
  /// The format closest to `wanted` that write() supports.
  virtual Format format_for(const Shape& shape, Format wanted) const = 0;
  /// Issues the write of a batch that is in device memory.
  virtual void write(const BatchValues& batch, const Tensor& input) = 0;
  /// Issues the write of `labels`, which are in device memory, to `to` as plain fp32.
  virtual void write_labels(std::span<const int32_t> labels, const Tensor& to) = 0;
};

/// Creates the layers of one device. Each kind of device has one subclass. The caller selects the
/// factory when it creates the net.
class LayerFactory {
 public:
  virtual ~LayerFactory() = default;
  virtual Device& device() = 0;
  virtual std::unique_ptr<Layer> make(const LayerRequest& request) = 0;
  /// Whether the device's code of this layer can include a following relu, or the addition of a
  /// residual. The defaults are correct for CPU and GPU. A device may override them.
  virtual bool fuses_relu(const Definition& definition) const;
  virtual bool fuses_residual(const Definition& definition) const;
  /// Issues sums += values. Both have the same size.
  virtual void add(std::span<const float> values, std::span<float> sums) = 0;
  /// A layer that copies its input to another format. backward copies the gradient back.
  virtual std::unique_ptr<Layer> make_reorder(const Shape& shape, Format from, Format to) = 0;
  /// The writer of a net's input. Null: the net copies batches to its input as plain fp32.
  virtual std::unique_ptr<BatchInput> make_batch_input() { return nullptr; }
};

}  // namespace poseidon::layers
