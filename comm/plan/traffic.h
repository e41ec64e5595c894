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
  /// The bytes that cross one node's link, as multiples of EvenTraffic's bytes: of contributions
  /// and sums, and of one sample's factors.
  struct NodeShare {
    double contributions_sent = 0, contributions_received = 0;
    double sums_sent = 0, sums_received = 0;
    double factors_sent = 0, factors_received = 0;
    bool computes = true;  ///< whether the node has a worker
    auto operator<=>(const NodeShare&) const = default;
  };

  explicit EvenTraffic(const PlanRequest& request);

  /// Encoded bytes of a contribution to these tensors, and of their sums.
  double contribution_bytes(std::span<const TensorTraffic> tensors) const;
  double sum_bytes(std::span<const TensorTraffic> tensors) const;
  /// Bytes of one sample's factors.
  double row_bytes(const LayerTraffic& layer) const;
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
