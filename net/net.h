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
#include "net/batch_too_large.h"
#include "net/network.h"

namespace poseidon::net {

/// One learnable tensor of a net. Its memory is in the order its layer keeps; canonical order is
/// the dense one of the network file. `value` and `next` trade places by Net::flip: read them anew
/// after it.
struct Parameter {
  std::string name;  ///< "conv1.weight"
  int layer = 0;     ///< index of its layer, for the callbacks
  int index = 0;     ///< its place among the layer's parameters
  layers::ParameterSpec spec;
  /// False: no update changes it, since its learning rate is 0 or no loss depends on it, or the net
  /// does not train.
  bool learned = false;
  std::span<float> value;     ///< packed; of the current version
  std::span<float> next;      ///< where an update writes; `value` itself with one version
  std::span<float> gradient;  ///< packed; overwritten by each backward
};

/// A tracked statistic; never packed. `contribution` is overwritten by each forward in training.
struct Statistic {
  std::string name;  ///< "bn1.running_mean"
  int layer = 0;
  layers::StatisticSpec spec;
  std::span<float> value;
  std::span<float> next;  ///< as of a parameter
  std::span<float> contribution;
};

/// Choices by layer name, as they stand in a file that device.choices names.
using Choices = std::map<std::string, layers::Choice>;

/// Called before the forward pass of a layer that has parameters or statistics: returns when they
/// may be read and its gradients and contributions overwritten.
using Gate = std::function<void(int layer)>;
/// Called in backward as soon as all gradients of a layer with learned parameters are final, last
/// layer first; of a layer that gives factors, as soon as these are. Its parameters may still be
/// read: they must not change before BetweenLayers.
using OnGradient = std::function<void(int layer)>;
/// Called in backward after each layer: parameters of the layers announced so far may change.
using BetweenLayers = std::function<void()>;

/// What a net takes of memory, bytes.
struct NetMemory {
  size_t parameters = 0;
  size_t second_version = 0;  ///< of learned parameters and of statistics
  size_t gradients = 0;       ///< of parameters
  size_t statistics = 0;      ///< and a batch's contributions to them
  size_t activations = 0;     ///< with their gradients and workspaces, after reuse
  size_t scratch = 0;         ///< of whichever layer is at work
};

/// A network in the memory of one device: parameters, activations, and the order of execution. Used
/// by one thread.
class Net {
 public:
  struct Options {
    bool training = true;  ///< false: forward only, less memory
    Choices choices = {};
    std::vector<std::string> keep = {};  ///< layers whose output can be read after a forward pass
    /// 2: learned parameters and statistics have a second memory, into which an update is written
    /// beside the current values; see flip().
    int versions = 1;
    /// False: it is only to be asked what it would take (memory()), and has no values.
    bool takes_memory = true;
    /// Layers that give factors in place of gradients (layers::FactorShape), and of how many
    /// samples rebuild() gets them: those of the global batch. Frozen layers cannot.
    std::vector<std::string> factored = {};
    int64_t factor_rows = 0;
  };

  /// Makes all layers and takes all memory. `network` must outlive the net. Throws ConfigError;
  /// where memory cannot be had, OutOfMemory that names what wants most, of activations
  /// BatchTooLarge.
  Net(const Network& network, layers::LayerFactory& factory, const Options& options);
  ~Net();

  /// Of the batch, (n, c, h, w).
  const Shape& input_shape() const;
  /// The batch to compute, before forward: plain (n, c, h, w), of the host, which may reuse it.
  void set_input(std::span<const float> values);

  /// `gate` may be null.
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

  /// In network order.
  std::span<Parameter> parameters();
  std::span<Statistic> statistics();
  std::span<const int> parameters_of(int layer) const;
  std::span<const int> statistics_of(int layer) const;
  /// The layers that have something to sum over the shards of a step, in order of the forward pass:
  /// those that backward announces, and those with statistics.
  std::span<const int> summed_layers() const;
  /// Whether backward announces this layer: it has learned parameters.
  bool announces(int layer) const;

  int versions() const;
  /// Makes `next` the current value of the layer's learned parameters and statistics, and the
  /// current value `next`; a second time, back again. Nothing with one version. Not within a pass,
  /// but for BetweenLayers and Gate.
  void flip(int layer);

  /// Fills every parameter by its filler, a pure function of the seed; statistics by their first
  /// value.
  void initialize(uint64_t seed);

  // Between memory of the host and of the device; all of these block.
  /// A parameter's value in canonical order.
  std::vector<float> canonical(const Parameter& parameter) const;
  void set_canonical(const Parameter& parameter, std::span<const float> values);
  /// The same of a tensor that is kept like the parameter (optimizer state, gradient).
  void write_packed(const Parameter& parameter, std::span<const float> canonical,
                    std::span<float> packed) const;
  void read_packed(const Parameter& parameter, std::span<const float> packed,
                   std::span<float> canonical) const;

  // Between the device's memory and staging memory (core/device.h): work that is issued.
  /// Whether both orders are one, so that a gradient can be sent and received where it lies.
  bool canonical_is_packed(const Parameter& parameter) const;
  /// A parameter's gradient in canonical order, into `out` (spec.shape.count() elements, of the
  /// device or staging), and back.
  void canonical_gradient(const Parameter& parameter, std::span<float> out) const;
  void canonical_value(const Parameter& parameter, std::span<float> out) const;
  void gradient_from_canonical(const Parameter& parameter, std::span<const float> values);
  /// The same, piece by piece to `sink`, while the gradient's memory becomes undefined.
  void give_gradient(const Parameter& parameter, std::span<const float> canonical,
                     const layers::GradientSink& sink);

  /// A loss layer's (samples, 2) result of the last forward: loss and rank of the label, for each
  /// sample.
  struct Loss {
    std::string name;
    double weight = 1;
    std::vector<float> loss_and_rank;
  };
  /// Blocks until the forward pass is over.
  std::vector<Loss> read_losses() const;

  /// The output of a layer after forward, in plain layout, by name; for tests, features and --test.
  /// Only layers whose output is kept (see `keep`), else LogicError.
  std::vector<float> output(const std::string& layer) const;

  Device& device() const;

  /// The first layer, in order, whose output, parameters or gradients hold a value that is not
  /// finite; "" when there is none. Runs forward and backward again, so call it only when something
  /// is wrong. From then on factors are put nowhere, until set_factor_memory() is called again.
  std::string first_non_finite(const layers::StepContext& step);

  /// What the user should know of this network on this device, each with the layer's name.
  std::vector<std::string> warnings() const;

  /// Layers are numbered from 0 to below this.
  int layer_count() const;
  /// "conv1".
  const std::string& layer_name(int layer) const;
  /// From now on each layer's passes in training are recorded, on the track "compute"; null: none.
  void set_trace(TraceRecorder* trace);

  /// What was decided for each layer, for plan.json and checkpoints.
  Choices choices() const;
  /// By layer, other choices worth timing (Layer::alternatives).
  std::map<std::string, std::vector<layers::Choice>> alternatives() const;

  struct Timing {
    std::string name, type;
    double forward_ms = 0, backward_ms = 0;
    int64_t multiply_adds = 0;  ///< of the forward pass
  };
  /// Times every operation over `repeats` steps (medians).
  std::vector<Timing> time(const layers::StepContext& step, int repeats);

  /// What it takes of memory.
  NetMemory memory() const;
  /// Elements of a parameter as they lie in memory, with padding.
  size_t packed_count(const Parameter& parameter) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace poseidon::net
