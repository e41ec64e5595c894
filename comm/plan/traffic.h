#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/plan/plan.h"

/// The exact payload that a plan moves: what is sent to another node, without headers. The nodes
/// are the hosts of the plan's assignment.
namespace poseidon::comm {

struct NodeBytes {
  int64_t sent = 0, received = 0;
  bool operator==(const NodeBytes&) const = default;
};

/// Bytes of one layer in one step, by node.
using LayerTrafficBytes = std::vector<NodeBytes>;

/// The bytes of each layer on each node. Where layers share a chunk, each counts its own pieces.
std::vector<LayerTrafficBytes> expected_traffic(const Plan& plan);

/// The bytes of a layer over all nodes, sent plus received.
int64_t total_bytes(const LayerTrafficBytes& nodes);

/// The bytes of elements and factors before chunks have servers, as if each server had the same
/// share.
class EvenTraffic {
 public:
  explicit EvenTraffic(const PlanRequest& request);

  /// Bytes per node, sent plus received.
  double ps_bytes(std::span<const TensorTraffic> tensors) const;
  double factor_bytes(int64_t rows, int64_t columns) const;

 private:
  WireNumber wire_;
  int64_t hosts_ = 1;
  double crossings_per_element_ = 0;  ///< how many of its contributions and sums leave a node
  int64_t rows_sent_ = 0;             ///< how many rows of factors all workers send
};

}  // namespace poseidon::comm
