#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/trace.h"
#include "layers/layer.h"
#include "net/batch_receiver.h"
#include "net/callbacks.h"
#include "net/canonical_values.h"
#include "net/diagnosis.h"
#include "net/network.h"
#include "net/parameters.h"

namespace poseidon::net {

/// Algorithm choices by layer name, as in the file that the job key device.choices names.
using Choices = std::map<std::string, layers::AlgorithmChoice>;

/// Memory of a net, in bytes.
struct NetMemory : ParameterMemory {
  /// Activations, their gradients, workspaces and input buffers, with memory reuse.
  size_t activations = 0;
  size_t scratch = 0;  ///< of all layers, which share it, and of CanonicalValues

  size_t total() const {
    return parameters + second_version + gradients + statistics + activations + scratch;
  }
};

/// A reported scalar of a layer, with one value for each sample of a batch.
struct ScalarValues {
  ReportedScalar scalar;
  std::vector<float> values;
};

/// A network in the memory of one device: parameters, activations, and order of execution. A layer
/// number is an index in Network::nodes() of the training network, or of the test network if the
/// net does not train. Only the compute thread uses a net.
class Net {
 public:
  struct Options {
    bool training = true;  ///< false: the forward pass of Network::in_test() only, in less memory
    Choices choices = {};
    std::vector<std::string> keep = {};  ///< layers whose outputs the caller may read with output()
    /// 2: learned parameters and statistics have a second buffer, so that an update does not
    /// overwrite the current values; see Parameters::flip().
    int versions = 1;
    /// False: the net allocates nothing and has no values. Used only to compute memory().
    bool allocates_memory = true;
    /// Layers that write factors instead of gradients (layers::FactorShape). Such a layer must not
    /// share parameters, and at least one of its learning rate multipliers must not be 0.
    std::vector<std::string> factored = {};
    /// Number of samples in the factors that rebuild() reads: the global batch.
    int64_t factor_rows = 0;
  };

  /// Makes all layers. Allocates all memory, unless Options::allocates_memory is false. `network`
  /// and `factory` must outlive the net. Throws ConfigError and OutOfMemory. The message of
  /// OutOfMemory names the largest layer or parameter, or the kind of memory.
  Net(const Network& network, layers::LayerFactory& factory, const Options& options);
  ~Net();

  /// Shape of a batch, (n, c, h, w).
  const Shape& input_shape() const;
  /// Sets the next batch. forward() needs this call, or a call of batch_receiver().set(). `values`
  /// are plain (n, c, h, w) in host memory, which the caller may reuse at once. `extras` are all
  /// values of the first auxiliary input, then those of the next one.
  void set_input(std::span<const float> values, std::span<const float> extras = {});
  /// The object that receives batches from a data::Loader.
  BatchReceiver& batch_receiver();

  /// Runs the layers of the step's phase. A net that does not train runs its test layers in any
  /// phase. `gate` may be null. The pass copies the reported scalars to the host in
  /// DeviceStream::kSend, so later work in that stream waits for this pass. Throws RunError for a
  /// label that a layer cannot use (Definition::check_labels).
  void forward(const layers::StepContext& step, const Gate& gate = nullptr);
  /// Runs the backward pass after a forward pass in training. The callbacks may be null. They run
  /// after groups of layers. A group contains `gradients_per_group` layers with gradients, and the
  /// layers between them. If `gradients_per_group` is 1, a group is one layer on a device that does
  /// not record work (GraphCapture in core/device.h). On a device that records work, a layer with
  /// few parameters may join such a group (Passes).
  void backward(const layers::StepContext& step, const OnGradient& on_gradient = nullptr,
                const BetweenLayers& between_layers = nullptr, int64_t gradients_per_group = 1);

  /// The factor shape of a layer; none if the layer writes gradients.
  std::optional<layers::FactorShape> factor_shape(int layer) const;
  /// Sets the memory to which the next backward passes write a layer's factors, one row for each
  /// sample of the net's batch. Null pointers: the layer writes no factors. The caller owns the
  /// memory.
  void set_factor_memory(int layer, const layers::FactorMemory& memory);
  /// Computes a layer's gradients from the stacked factors of Options::factor_rows samples. Passes
  /// the gradients to `sink`; the content of the gradient memory is then undefined. If `sink` is
  /// null, writes the gradients to the gradient memory. During a pass, only the callbacks may call
  /// this function.
  void rebuild(int layer, const layers::FactorMemory& stacked,
               const layers::GradientSink* sink = nullptr);

  Parameters& parameters();
  const Parameters& parameters() const;
  CanonicalValues& values();
  Diagnosis& diagnosis();
  /// Converts a parameter's gradient from canonical to packed order, and passes it to `sink` in
  /// segments. `canonical` is device memory other than the gradient memory, or host memory that the
  /// device shares. The content of the gradient memory is undefined afterwards.
  void pack_gradient(const Parameter& parameter, std::span<const float> canonical,
                     const layers::GradientSink& sink);

  /// The scalars of the last forward pass, in the order of Network::scalars(). Blocks until the
  /// pass is done.
  std::vector<ScalarValues> read_scalars() const;

  /// The output of a layer after a forward pass, in plain layout; for unit tests, --extract and
  /// --test. Throws LogicError unless the layer was in the last pass and its output is kept
  /// (Options::keep).
  std::vector<float> output(const std::string& layer) const;

  Device& device() const;

  int layer_count() const;
  const std::string& layer_name(int layer) const;
  /// Records the training passes (see Passes) and the calls of rebuild() on the track "compute" of
  /// the trace. Null: stops recording.
  void set_trace(TraceRecorder* trace);

  /// The algorithm choices by layer name, for plan.json and checkpoints. Layers with an empty
  /// choice are not listed.
  Choices choices() const;
  NetMemory memory() const;
  /// Copies the step parameters and labels of `step` to the memory from which the layers read them.
  /// Returns `step` with a pointer to the copied step parameters. Throws RunError like forward().
  layers::StepContext on_device(const layers::StepContext& step);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace poseidon::net
