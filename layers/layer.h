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
#include "core/device.h"
#include "core/fields.h"
#include "core/tensor.h"
#include "layers/filler.h"

/// A layer has two halves. Its Definition (layers/pooling.h) is device-free: JSON fields, geometry,
/// output shape, parameters. Its Layer (layers/cpu/pooling.cpp) is its mathematics on one device.
namespace poseidon::layers {

/// One learnable tensor in canonical dense order (outputs x inputs/groups x kernel).
struct ParameterSpec {
  std::string name;  ///< "weight", "bias"
  Shape shape;
  Filler filler;
  int64_t fan_in = 1;
  double learning_rate_multiplier = 1;
  double decay_multiplier = 1;
};

/// One tensor that is tracked, not learned: after each step
/// value += momentum * (mean of the logical shards' contributions - value).
struct StatisticSpec {
  std::string name;  ///< "running_mean"
  Shape shape;
  float initial = 0;
  double momentum = 0.1;
};

/// The weight gradient of such a layer is a product of two thin matrices with a row for each
/// sample, deltas^T x activations: the gradient of its output (before an activation that is fused
/// into it) and its input. The bias gradient is the sum of the deltas over the samples.
struct FactorShape {
  int64_t rows = 0;     ///< of the weight: outputs, the width of the deltas
  int64_t columns = 0;  ///< of the weight: inputs, the width of the activations
  bool bias = false;
};

struct StepContext;

/// What the network file says of one layer, and what follows from it. Made by make_definition
/// (layers/registry.h).
class Definition {
 public:
  virtual ~Definition() = default;

  virtual std::string_view type() const = 0;
  /// The fields of this type, for the network file.
  virtual void describe(Fields& fields) = 0;
  /// Called once, with the shapes of the inputs (the first extent is the batch). Checks them, keeps
  /// the geometry and returns the output's shape. Throws ConfigError by fail().
  virtual Shape infer(std::span<const Shape> inputs) = 0;

  virtual std::vector<ParameterSpec> parameters() const { return {}; }
  virtual std::vector<StatisticSpec> statistics() const { return {}; }
  /// Of a layer whose gradients can be sent as factors; none for all others.
  virtual std::optional<FactorShape> factors() const { return std::nullopt; }
  /// Multiply-adds of one forward pass over the batch; 0 where they do not matter.
  virtual int64_t multiply_adds() const { return 0; }
  /// Names of what it reports of each sample, "top1", to be averaged over the samples: the columns
  /// of its output, (samples, names), which no layer reads.
  virtual std::vector<std::string> scalars() const { return {}; }
  /// It starts the backward pass. The first of scalars() is the loss of each sample, unscaled.
  virtual bool is_loss() const { return false; }
  /// Of a loss: its factor in the total loss.
  virtual double loss_weight() const { return 1; }
  /// Of a layer that reads the samples' labels: which of its inputs they are, (samples, 1) of whole
  /// numbers, which stay there for backward. It is the last, and a network file need not name it.
  /// -1: it reads none.
  virtual int label_input() const { return -1; }
  /// Whether it knows what to do where samples are mixtures (StepContext::mixtures): its input of
  /// labels then has three rows, (3, samples), of which the first is the labels that count most.
  virtual bool takes_mixtures() const { return false; }
  /// Whether it is a loss that takes its first input for scores of classes.
  bool is_loss_of_classes() const { return is_loss() && label_input() == 1; }
  /// Throws RunError, with layer, sample and label, at the first label that the layer cannot use.
  virtual void check_labels(const StepContext&) const {}

  std::string name;

 protected:
  /// Throws ConfigError "[type 'name'] message".
  [[noreturn]] void fail(const std::string& message) const;
  /// Refuses another number of inputs than `count`.
  void expect_inputs(std::span<const Shape> inputs, size_t count) const;
};

/// The multipliers of Caffe's param blocks: "learning_rate_multipliers": [1, 2],
/// "decay_multipliers": [1, 0], one for each parameter, in order; missing ones are 1.
struct Multipliers {
  std::vector<double> learning_rate, decay;
  void describe(Fields& fields);
  void apply(std::vector<ParameterSpec>& parameters) const;
};

/// How a layer is to be computed, where there is a choice. Empty: by the fixed rule of its device.
/// Values are names that the device's layer gives ("blocked16", "winograd", "direct").
struct Choice {
  std::string layout;
  std::string forward, backward_data, backward_weights;

  void describe(Fields& fields);
  bool operator==(const Choice&) const = default;
};

/// Names of the code that computes the passes of a layer: "Poseidon product", "oneDNN jit:avx2".
/// Empty: the layer has no such pass.
struct Implementations {
  std::string forward, backward_data, backward_weights;

  bool operator==(const Implementations&) const = default;
};
inline constexpr const char* kOwnCode = "Poseidon";

enum class Phase : uint8_t { kTrain, kTest };

/// What is another in every batch of a run, beside its samples.
struct StepNumbers {
  uint64_t seed = 0;
  int64_t step = 0;
  int64_t first_sample = 0;  ///< place of the batch's first sample in the global batch
};
inline constexpr StepNumbers kNoNumbers{};

/// What a step tells its layers. Its numbers are of the host where Net is called, and in device
/// memory where it calls a layer, whose work may be repeated with other numbers there (Repeats).
struct StepContext {
  Phase phase = Phase::kTrain;
  const StepNumbers* numbers = &kNoNumbers;
  /// Of the host, one for each sample of this batch: Net brings them to where layers have them as
  /// an input.
  std::span<const int32_t> labels;
  /// Of the host, where samples are mixtures of two: the labels of all samples' second ones, and
  /// then the shares that these have, 0 to 1/2. Empty: none is a mixture. Layers read them in
  /// training alone.
  std::span<const float> mixtures = {};
  float loss_scale = 1;  ///< 1 / samples of the global batch
};

/// A layer's parameter or statistic in device memory, in the layer's own order (see Layer::pack).
struct ParameterMemory {
  float* value = nullptr;
  float* gradient = nullptr;  ///< of a statistic: this batch's contribution; null when not training
};

/// The factors of a batch, or of several one after another: dense, a row for each sample.
struct FactorMemory {
  float* deltas = nullptr;       ///< samples x FactorShape::rows
  float* activations = nullptr;  ///< samples x FactorShape::columns
};

/// The memory of one call, bound by the net.
struct Bindings {
  std::vector<Tensor> inputs;
  Tensor output;
  /// Backward: the gradients that the output's consumers left, one or more, to be summed. The layer
  /// may overwrite them.
  std::vector<Tensor> output_gradients;
  std::vector<Tensor> input_gradients;  ///< data is null where none is wanted
  std::vector<ParameterMemory> parameters;
  std::vector<ParameterMemory> statistics;
  std::byte* workspace = nullptr;  ///< kept from forward to backward of the same batch
  std::byte* scratch = nullptr;    ///< free for the time of the call
};

/// Takes a gradient as it is made: elements from `first` on of parameter `index`, in the layer's
/// own order, while they are in the cache. Every element comes once, in any order, from several
/// threads at a time; a piece is gone after the call.
using GradientSink = std::function<void(int index, int64_t first, std::span<const float> piece)>;

/// The memory of a call that has nothing but two contributions to its output's gradient, of which
/// the second is to be added to the first.
Bindings to_be_added(std::span<const float> values, std::span<float> sums);

/// What a layer asks of the net; fixed when it is made.
struct Needs {
  std::vector<Format> input_formats;  ///< the net reorders where a producer gives another
  Format output_format;
  bool backward_reads_inputs = false;  ///< all of them but a fused residual
  bool backward_reads_output = false;
  /// The output may take the memory of this input, and the gradient of this input the memory of
  /// output_gradients[0]; -1 for none.
  int forward_in_place = -1;
  int backward_in_place = -1;
  size_t workspace_bytes = 0;
  size_t scratch_bytes = 0;
};

/// The mathematics of one layer on one device. Gradients are written, never accumulated. Called by
/// one thread, the compute thread.
class Layer {
 public:
  virtual ~Layer() = default;

  const Needs& needs() const { return needs_; }
  const Choice& choice() const { return choice_; }
  /// Other choices that are legal for this geometry and worth timing; each differs from choice() in
  /// one field.
  virtual std::vector<Choice> alternatives() const { return {}; }
  /// All empty: kOwnCode computes every pass.
  const Implementations& implementations() const { return implementations_; }

  virtual void forward(const StepContext& step, const Bindings& memory) = 0;
  /// Of the same batch and phase as the forward before it.
  virtual void backward(const StepContext& step, const Bindings& memory) = 0;

  /// Of a layer that was made to give factors, before backward: writes those of this batch to
  /// `factors`, if they are wanted. backward then makes the input gradients alone.
  virtual void write_factors(const Bindings& memory, const FactorMemory& factors);
  /// Of such a layer: the gradients of its parameters from the stacked factors of
  /// LayerRequest::factor_rows samples, to `sink`, which leaves the gradients' memory undefined, or
  /// without one there. Bits do not depend on the number of threads.
  virtual void rebuild(const FactorMemory& factors, const Bindings& memory,
                       const GradientSink* sink);

  /// Elements of parameter `index` in the order this layer keeps it, padding (always zero)
  /// included.
  virtual int64_t packed_count(int index) const = 0;
  /// From canonical order to the layer's own, and back.
  virtual void pack(int index, const float* canonical, float* packed) const = 0;
  virtual void unpack(int index, const float* packed, float* canonical) const = 0;
  /// Gives `sink` the gradient of a parameter that lies in canonical order elsewhere. Leaves the
  /// gradient's memory undefined.
  virtual void give_gradient(int index, const float* canonical, const Bindings& memory,
                             const GradientSink& sink) const;
  /// Whether the two orders are one, so that pack and unpack only copy.
  virtual bool packed_is_canonical(int index) const = 0;
  /// Names the layer's own order of a parameter: two layers of one device that give it the same
  /// name keep parameters of one shape in the same order. "" where the layer cannot tell.
  virtual std::string packed_order(int index) const {
    return packed_is_canonical(index) ? "canonical" : "";
  }

  /// What the user should know, for example that only slow code exists for this geometry; usually
  /// empty.
  const std::string& warning() const { return warning_; }

 protected:
  std::string warning_;
  Needs needs_;
  Choice choice_;
  Implementations implementations_;
};

/// What the net asks for when it has a layer made.
struct LayerRequest {
  const Definition& definition;
  std::vector<Shape> input_shapes;
  Shape output_shape;
  std::vector<Format> input_formats;  ///< as their producers give them
  std::vector<bool> input_needs_gradient;
  bool training = true;       ///< backward will be called
  std::optional<float> relu;  ///< apply leaky relu with this negative slope to the output
  bool residual = false;      ///< the last input is to be added to the output, before the relu
  /// More than 0: give factors in place of gradients, and rebuild from this many samples.
  int64_t factor_rows = 0;
  Choice choice;
};

/// Writes batches to a net's input, on a device with memory of its own: in the format that the
/// first layer asks for, from values or from pixels, of which it makes what data::Transform makes
/// of them.
class BatchInput {
 public:
  virtual ~BatchInput() = default;
  /// Whether batches of this shape may come as pixels.
  virtual bool takes_pixels(const Shape& shape) const = 0;
  /// What it can write that is closest to `wanted`.
  virtual Format format_for(const Shape& shape, Format wanted) const = 0;
  /// Issues the write of a batch that is in device memory.
  virtual void write(const BatchValues& batch, const Tensor& input) = 0;
  /// The same of its labels, to plain fp32.
  virtual void write_labels(std::span<const int32_t> labels, const Tensor& to) = 0;
};

/// Makes layers for one device. One for each kind of device; chosen when the net is made.
class LayerFactory {
 public:
  virtual ~LayerFactory() = default;
  virtual Device& device() = 0;
  virtual std::unique_ptr<Layer> make(const LayerRequest& request) = 0;
  /// Whether a layer of this kind can take a following relu, or the addition of a residual, into
  /// itself. What every device that computes can, unless it says otherwise.
  virtual bool fuses_relu(const Definition& definition) const;
  virtual bool fuses_residual(const Definition& definition) const;
  /// Issues the addition of `values` to `sums`, as many.
  virtual void add(std::span<const float> values, std::span<float> sums) = 0;
  /// A layer that copies its input into another format; its gradient back.
  virtual std::unique_ptr<Layer> make_reorder(const Shape& shape, Format from, Format to) = 0;
  /// What writes batches to a net's input; null where they are copied to it, as plain fp32.
  virtual std::unique_ptr<BatchInput> make_batch_input() { return nullptr; }
};

}  // namespace poseidon::layers
