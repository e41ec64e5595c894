#pragma once

#include <map>
#include <string>
#include <vector>

#include "importer/layer_phases.h"

namespace poseidon::importer {

/// Caffe's blobs are variables, which a layer may overwrite with its result ("in place"). These are
/// their values: each has one layer that makes it.
struct BlobValue {
  std::string name;   ///< of the blob
  int producer = -1;  ///< index of a layer of the graph; -1 for an input of the network
  int readers = 0;
};

/// A layer with indices of the values that it reads and makes.
struct GraphLayer {
  const CaffeLayer* layer;
  PhaseSet phases;
  PerPhase<std::vector<int>> bottoms;  ///< of the phases that it takes part in
  std::vector<int> tops;
};

/// The layers that take part in a phase, in order. A value that a layer makes in both phases is
/// one, though what the layer reads may be another in each. `network` must outlive it.
class BlobGraph {
 public:
  /// Throws ConfigError where a layer reads what no layer before it makes, or a blob is made twice.
  explicit BlobGraph(const CaffeNetwork& network);

  const std::vector<GraphLayer>& layers() const { return layers_; }
  const std::vector<BlobValue>& values() const { return values_; }
  /// Those of the network's own inputs, in order.
  const std::vector<int>& inputs() const { return inputs_; }
  /// Batch norms of one phase that are here those of the other: ours normalize by the phase.
  const std::vector<const CaffeLayer*>& twins() const { return twins_; }

 private:
  /// The newest value of each blob.
  using CurrentValues = PerPhase<std::map<std::string, int>>;

  int add_value(const std::string& name, int producer);
  void add_layer(const CaffeLayer& layer, PhaseSet phases);
  bool add_to_twin(const CaffeLayer& layer, PhaseSet phases);
  void read(GraphLayer& layer, Phase phase);

  CurrentValues current_;

  std::vector<GraphLayer> layers_;
  std::vector<BlobValue> values_;
  std::vector<int> inputs_;
  std::vector<const CaffeLayer*> twins_;
};

}  // namespace poseidon::importer
