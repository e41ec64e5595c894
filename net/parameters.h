#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "layers/layer.h"
#include "net/tensor_memory.h"
#include "net/tensor_versions.h"

namespace poseidon::net {

class Network;
class Program;
class Programs;
struct Call;

/// One learnable tensor of a net. In memory its elements have packed order, which its layer defines
/// (layers::Layer::pack). Parameters::flip() exchanges its versions.
struct Parameter {
  std::string name;  ///< such as "conv1.weight"
  int layer = 0;     ///< index of its layer in Network::nodes()
  int index = 0;     ///< its index among the layer's parameters
  layers::ParameterSpec spec;
  /// False if no update changes the parameter: its learning rate multiplier is 0, no loss depends
  /// on it, or the net does not train.
  bool learned = false;
  TensorVersions versions;  ///< packed
  /// `versions`, rounded to bf16; empty unless layers::Layer::reads_rounded.
  VersionsOf<Bf16> rounded;
  /// Packed; empty if no layer runs backward. Each backward pass or Net::rebuild() overwrites it.
  std::span<float> gradient;

  std::span<float> value() const { return versions.current(); }
  std::span<float> next() const { return versions.next(); }
};

/// A running statistic of a layer, in canonical order. Each forward pass in training overwrites
/// `contribution` with the contribution of the batch.
struct Statistic {
  std::string name;  ///< such as "bn1.running_mean"
  int layer = 0;
  layers::StatisticSpec spec;
  TensorVersions versions;
  std::span<float> contribution;

  std::span<float> value() const { return versions.current(); }
  std::span<float> next() const { return versions.next(); }
};

/// Memory of a net's tensors, in bytes.
struct ParameterMemory {
  size_t parameters = 0;      ///< with their rounded values
  size_t second_version = 0;  ///< second copies of learned parameters and statistics
  size_t gradients = 0;       ///< with separate gradients of layers that share parameters
  size_t statistics = 0;      ///< statistics, and the contributions of one batch to them
};

/// The parameters and statistics of a net, in the order of the network's layers. Learned parameters
/// and statistics have one or two versions (TensorVersions). Other parameters have one.
class Parameters {
 public:
  /// Lists the parameters and statistics, and allocates no memory. Sets Call::gate and
  /// Call::announces in `programs`. All arguments must outlive this object. `versions` is 1 or 2.
  Parameters(Device& device, const Network& network, Programs& programs, int versions);

  /// Allocates memory for all tensors and binds it to the programs' layers. Throws OutOfMemory that
  /// names the largest parameter, or "running statistics".
  void allocate_memory();
  /// The memory that allocate_memory() allocates.
  ParameterMemory memory() const;

  auto begin() { return parameters_.begin(); }
  auto end() { return parameters_.end(); }
  auto begin() const { return parameters_.begin(); }
  auto end() const { return parameters_.end(); }
  size_t size() const { return parameters_.size(); }
  Parameter& operator[](size_t index) { return parameters_[index]; }
  const Parameter& operator[](size_t index) const { return parameters_[index]; }
  std::span<Statistic> statistics() { return statistics_; }

  /// Indices of a layer's parameters in this object, and of its statistics in statistics().
  std::span<const int> of(int layer) const { return of_layer_[static_cast<size_t>(layer)]; }
  std::span<const int> statistics_of(int layer) const {
    return statistics_of_layer_[static_cast<size_t>(layer)];
  }
  /// The layers with values to sum over the logical shards of a step: gradients of learned
  /// parameters, or contributions to statistics. In the order of the forward pass.
  std::span<const int> summed_layers() const { return summed_layers_; }
  /// Whether the backward pass announces this layer (OnGradient), that is, whether it has learned
  /// parameters.
  bool announces(int layer) const;

  int versions() const { return versions_; }
  /// Makes the next version of the layer's learned parameters and statistics the current one. Does
  /// nothing if there is one version. During a pass, only the callbacks BetweenLayers and Gate may
  /// call this function.
  void flip(int layer);

  /// The layer that owns a parameter.
  const layers::Layer& layer_of(const Parameter& parameter) const;
  /// Number of elements of a parameter in memory, padding included.
  size_t packed_count(const Parameter& parameter) const;

 private:
  void list(const Call& call);
  void list_statistics(const Call& call);
  void bind(Call& call);
  void bind_shared(int layer);
  void find_summed_layers();
  TensorMemory taken(size_t floats, size_t kind, const char* what) const;

  Device& device_;
  const Network& network_;
  Program& program_;
  Program* const tests_;  ///< the test program, whose calls read the same tensors; null: none
  const int versions_;
  bool training_ = false;  ///< whether any layer runs backward
  TensorMemory values_, next_values_, rounded_, statistic_memory_;
  TensorMemory gradients_;  ///< in training also contributions to statistics
  std::vector<Parameter> parameters_;
  std::vector<Statistic> statistics_;
  std::vector<std::vector<int>> of_layer_, statistics_of_layer_;
  std::vector<int> summed_layers_;
};

}  // namespace poseidon::net
