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
#include "net/batch_reception.h"
#include "net/callbacks.h"
#include "net/diagnosis.h"
#include "net/network.h"
#include "net/parameters.h"
#include "net/values.h"

namespace poseidon::net {

/// Choices by layer name, as they stand in a file that device.choices names.
using Choices = std::map<std::string, layers::Choice>;

/// What a net takes of memory, bytes.
struct NetMemory : ParameterMemory {
  size_t activations = 0;  ///< with their gradients and workspaces, after reuse
  size_t scratch = 0;      ///< of whichever layer is at work

  size_t total() const {
    return parameters + second_version + gradients + statistics + activations + scratch;
  }
};

/// What a layer reports, of each sample of a batch.
struct ScalarValues {
  ReportedScalar scalar;
  std::vector<float> values;
};

/// A network in the memory of one device: parameters, activations, and the order of execution. What
/// is told of layers by number or name, without a phase, is of those of training, and in a net that
/// does not train of those of tests. Used by one thread.
class Net {
 public:
  struct Options {
    bool training = true;  ///< false: forward only, of Network::in_test(), less memory
    Choices choices = {};
    std::vector<std::string> keep = {};  ///< layers whose output can be read after a forward pass
    /// 2: learned parameters and statistics have a second memory, into which an update is written
    /// beside the current values; see Parameters::flip().
    int versions = 1;
    /// False: it is only to be asked what it would take (memory()), and has no values.
    bool takes_memory = true;
    /// Layers that give factors in place of gradients (layers::FactorShape), and of how many
    /// samples rebuild() gets them: those of the global batch. Frozen layers cannot.
    std::vector<std::string> factored = {};
    int64_t factor_rows = 0;
  };

  /// Makes all layers and takes all memory. `network` must outlive the net. Throws ConfigError;
  /// where memory cannot be had, OutOfMemory that names what wants most.
  Net(const Network& network, layers::LayerFactory& factory, const Options& options);
  ~Net();

  /// Of the batch, (n, c, h, w).
  const Shape& input_shape() const;
  /// The batch to compute, before forward: plain (n, c, h, w), of the host, which may reuse it.
  /// `extras` are all of the batch's values of the first further input, then those of the next.
  void set_input(std::span<const float> values, std::span<const float> extras = {});
  /// The same for batches of a loader.
  BatchReception& reception();

  /// The layers of the step's phase; a net that does not train has those of tests alone. `gate` may
  /// be null. What is issued to Lane::kSend later is done after the pass, since its scalars are
  /// sent.
  void forward(const layers::StepContext& step, const Gate& gate = nullptr);
  /// After a forward in training. The callbacks may be null.
  void backward(const layers::StepContext& step, const OnGradient& on_gradient = nullptr,
                const BetweenLayers& between_layers = nullptr);

  /// Of a layer that gives factors; none of one that gives gradients.
  std::optional<layers::FactorShape> factor_shape(int layer) const;
  /// Where the next backward passes put a layer's factors, a row for each sample of the net's
  /// batch; null: nowhere. The memory is the caller's.
  void set_factor_memory(int layer, const layers::FactorMemory& memory);
  /// The layer's gradients from the stacked factors of Options::factor_rows samples, to `sink` or,
  /// without one, into their memory. Not within a pass, but for the callbacks.
  void rebuild(int layer, const layers::FactorMemory& stacked,
               const layers::GradientSink* sink = nullptr);

  Parameters& parameters();
  const Parameters& parameters() const;
  Values& values();
  Diagnosis& diagnosis();
  /// A parameter's gradient, piece by piece to `sink`, while the gradient's memory becomes
  /// undefined. `canonical` is what the gradient's memory was filled from: its values in canonical
  /// order, of the device or staging.
  void give_gradient(const Parameter& parameter, std::span<const float> canonical,
                     const layers::GradientSink& sink);

  /// What the layers of the last forward pass report, in order. Blocks until it is over.
  std::vector<ScalarValues> read_scalars() const;

  /// The output of a layer after forward, in plain layout, by name; for tests, features and --test.
  /// Only layers of the last pass whose output is kept (see `keep`), else LogicError.
  std::vector<float> output(const std::string& layer) const;

  Device& device() const;

  /// Layers are numbered from 0 to below this.
  int layer_count() const;
  /// "conv1".
  const std::string& layer_name(int layer) const;
  /// From now on each layer's passes in training are recorded, on the track "compute"; null: none.
  void set_trace(TraceRecorder* trace);

  /// What was decided for each layer, for plan.json and checkpoints.
  Choices choices() const;
  /// What it takes of memory.
  NetMemory memory() const;
  /// Brings a step's numbers and labels to where layers read them.
  layers::StepContext on_device(const layers::StepContext& step);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace poseidon::net
