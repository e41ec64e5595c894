#pragma once

#include <string>
#include <vector>

#include "importer/caffe_network.h"

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
  std::vector<int> bottoms, tops;
};

/// The layers that take part in training, in order. `network` must outlive it.
class BlobGraph {
 public:
  /// Throws ConfigError where a layer reads what no layer before it makes, or a blob is made twice.
  explicit BlobGraph(const CaffeNetwork& network);

  const std::vector<GraphLayer>& layers() const { return layers_; }
  const std::vector<BlobValue>& values() const { return values_; }
  /// Those of the network's own inputs, in order.
  const std::vector<int>& inputs() const { return inputs_; }

 private:
  int add_value(const std::string& name, int producer);

  std::vector<GraphLayer> layers_;
  std::vector<BlobValue> values_;
  std::vector<int> inputs_;
};

}  // namespace poseidon::importer
