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

/// Choices by layer name, as in the file that device.choices names.
using Choices = std::map<std::string, layers::AlgorithmChoice>;

/// Memory of a net, in bytes.
struct NetMemory : ParameterMemory {
  size_t activations = 0;  ///< with gradients and workspaces, after reuse
  size_t scratch = 0;      ///< shared by all layers

  size_t total() const {
    return parameters + second_version + gradients + statistics + activations + scratch;
  }
};

/// A reported scalar of a layer, with one value for each sample of a batch.
struct ScalarValues {
  ReportedScalar scalar;
  std::vector<float> values;
};

/// A network in the memory of one device: parameters, activations, and order of execution. Layer
/// numbers and names without a phase refer to the training network. In a net that does not train,
/// they refer to the test network. Used by one thread.
class Net {
 public:
  struct Options {
    bool training = true;  ///< false: the forward pass of Network::in_test() only, in less memory
    Choices choices = {};
    std::vector<std::string> keep = {};  ///< layers whose output is readable after a forward pass
    /// 2: learned parameters and statistics have a second buffer, so that an update does not
    /// overwrite the current values; see Parameters::flip().
    int versions = 1;
    /// False: the net allocates nothing and has no values. It serves only to compute memory().
    bool allocates_memory = true;
    /// Layers that write factors instead of gradients (layers::FactorShape). rebuild() needs the
    /// factors of `factor_rows` samples, the global batch. Frozen layers cannot write factors.
    std::vector<std::string> factored = {};
    int64_t factor_rows = 0;
  };

  /// Makes all layers and allocates all memory. `network` must outlive the net. Throws ConfigError,
  /// and OutOfMemory with the name of the largest allocation.
  Net(const Network& network, layers::LayerFactory& factory, const Options& options);
  ~Net();

  /// Shape of a batch, (n, c, h, w).
  const Shape& input_shape() const;
  /// Sets the next batch, before forward(): plain (n, c, h, w) in host memory, which the caller may
  /// reuse at once. `extras` are all values of the first auxiliary input, then those of the next
  /// one.
  void set_input(std::span<const float> values, std::span<const float> extras = {});
  /// Receives batches from a loader.
  BatchReceiver& batch_receiver();

  /// Runs the layers of the step's phase; a net that does not train has only test layers. `gate`
  /// may be null. The scalars are sent in DeviceStream::kSend, so later work in that stream waits
  /// for this pass.
  void forward(const layers::StepContext& step, const Gate& gate = nullptr);
  /// Runs the backward pass after a forward pass in training. The callbacks may be null.
  void backward(const layers::StepContext& step, const OnGradient& on_gradient = nullptr,
                const BetweenLayers& between_layers = nullptr);

  /// The factor shape of a layer; none if the layer writes gradients.
  std::optional<layers::FactorShape> factor_shape(int layer) const;
  /// Sets the memory for a layer's factors in the next backward passes, one row for each sample of
  /// the net's batch. Null: the layer writes no factors. The caller owns the memory.
  void set_factor_memory(int layer, const layers::FactorMemory& memory);
  /// Computes a layer's gradients from the stacked factors of Options::factor_rows samples. They go
  /// to `sink`, or to the gradient memory if `sink` is null. During a pass, only callbacks may call
  /// it.
  void rebuild(int layer, const layers::FactorMemory& stacked,
               const layers::GradientSink* sink = nullptr);

  Parameters& parameters();
  const Parameters& parameters() const;
  CanonicalValues& values();
  Diagnosis& diagnosis();
  /// Passes a parameter's gradient to `sink`, piece by piece; the content of the gradient memory is
  /// undefined afterwards. The gradient memory was filled from `canonical`, the values in canonical
  /// order in device or staging memory.
  void pack_gradient(const Parameter& parameter, std::span<const float> canonical,
                     const layers::GradientSink& sink);

  /// The scalars that the layers of the last forward pass report, in order. Blocks until that pass
  /// is done.
  std::vector<ScalarValues> read_scalars() const;

  /// The output of a layer after a forward pass, in plain layout; for tests, features and --test.
  /// Throws LogicError unless the layer was in the last pass and its output is kept
  /// (Options::keep).
  std::vector<float> output(const std::string& layer) const;

  Device& device() const;

  /// The number of layers.
  int layer_count() const;
  /// The name of a layer, "conv1".
  const std::string& layer_name(int layer) const;
  /// Records the passes of each layer in training, on the track "compute". Null: stops recording.
  void set_trace(TraceRecorder* trace);

  /// The choice made for each layer, for plan.json and checkpoints.
  Choices choices() const;
  /// The memory of this net.
  NetMemory memory() const;
  /// Copies step parameters and labels to the memory in which layers read them.
  layers::StepContext on_device(const layers::StepContext& step);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace poseidon::net
