#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/plan/plan.h"

/// The payload that a plan moves: bytes sent to another node, without headers. The nodes are the
/// hosts of the plan's assignment.
namespace poseidon::comm {

struct NodeBytes {
  int64_t sent = 0, received = 0;
  bool operator==(const NodeBytes&) const = default;
};

/// Bytes that cross one node's link in a step.
struct LinkBytes {
  double sent = 0, received = 0;
};

/// Bytes of one layer in one step, by node.
using LayerTrafficBytes = std::vector<NodeBytes>;

/// The bytes of each layer on each node. If layers share a chunk, each counts its own pieces.
std::vector<LayerTrafficBytes> expected_traffic(const Plan& plan);

/// The bytes of a layer over all nodes, sent plus received.
int64_t total_bytes(const LayerTrafficBytes& nodes);

/// The bytes that sums and factors move, computed before chunks have servers. It assumes that each
/// server holds the same amount.
class EvenTraffic {
 public:
  /// The items that cross one node's link: contributions for one logical shard (single) and for
  /// several (joint), sums, and the factors of samples.
  struct NodeShare {
    double single_sent = 0, joint_sent = 0, single_received = 0, joint_received = 0;
    double sums_sent = 0, sums_received = 0;
    double factors_sent = 0, factors_received = 0;
    bool computes = true;  ///< whether the node has a worker
    auto operator<=>(const NodeShare&) const = default;
  };

  explicit EvenTraffic(const PlanRequest& request);

  /// The bytes of a layer on a node, if servers sum its tensors, or if workers exchange factors.
  LinkBytes bytes_by_servers(const LayerTraffic& layer, const NodeShare& node) const;
  LinkBytes bytes_by_factors(const LayerTraffic& layer, const NodeShare& node) const;
  /// The distinct shares of the nodes. Nodes with equal shares have one common entry.
  const std::vector<NodeShare>& nodes() const { return nodes_; }
  /// The average over all nodes.
  const NodeShare& mean() const { return mean_; }

 private:
  WireFormat wire_;
  std::vector<NodeShare> nodes_;
  NodeShare mean_;
};

}  // namespace poseidon::comm
