#pragma once

#include <map>
#include <string>
#include <vector>

#include "importer/layer_phases.h"

namespace poseidon::importer {

/// A Caffe blob is a variable that a layer may overwrite with its result ("in place"). A BlobValue
/// is one value of a blob. Exactly one layer, or the input of the network, produces it.
struct BlobValue {
  std::string name;   ///< name of the blob
  int producer = -1;  ///< index of a layer of the graph; -1: input of the network
  int readers = 0;    ///< number of layers that read the value
};

/// A layer with the indices of the values that it reads and produces.
struct GraphLayer {
  const CaffeLayer* layer;
  PhaseSet phases;
  PerPhase<std::vector<int>> bottoms;  ///< values that the layer reads, by phase
  std::vector<int> tops;               ///< values that the layer produces
};

/// The layers of a Caffe network that run in at least one phase, in file order, and their values.
/// If a layer runs in both phases, each of its tops is one value, even if its bottoms differ
/// between the phases. `network` must outlive the graph.
class BlobGraph {
 public:
  /// Throws ConfigError if a layer reads a blob that no input or earlier layer produces. Throws
  /// ConfigError also if a layer overwrites a blob that it does not read.
  explicit BlobGraph(const CaffeNetwork& network);

  const std::vector<GraphLayer>& layers() const { return layers_; }
  const std::vector<BlobValue>& values() const { return values_; }
  /// The values of the inputs that the file declares at its top level, in file order.
  const std::vector<int>& inputs() const { return inputs_; }
  /// Batch norms of one phase that are merged with the batch norm of the other phase. Poseidon's
  /// batch norm chooses its statistics by phase.
  const std::vector<const CaffeLayer*>& twins() const { return twins_; }

 private:
  /// Index of the latest value of each blob, by blob name.
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
