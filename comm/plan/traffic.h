#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/plan/plan.h"

/// The exact payload that a plan moves: what is sent to another node, without headers.
namespace poseidon::comm {

/// Who runs where. Worker w is on node w; server s shares the node of worker s mod workers, or has
/// node workers + s where servers are apart.
struct Layout {
  int64_t workers = 1, servers = 1;
  bool servers_apart = false;
  int64_t logical_shards = 1, global_batch = 1;
  std::string wire = "fp32";

  int64_t nodes() const { return servers_apart ? workers + servers : workers; }
  int64_t factor_bytes() const;  ///< the bytes of one value of a factor
  int64_t node_of_server(int64_t server) const {
    return servers_apart ? workers + server : server % workers;
  }
};

Layout layout_of(const PlanRequest& request);
Layout layout_of(const Plan& plan);

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
  explicit EvenTraffic(const Layout& layout);

  /// Bytes per node, sent plus received.
  double ps_bytes(std::span<const TensorTraffic> tensors) const;
  double factor_bytes(int64_t rows, int64_t columns) const;

 private:
  Layout layout_;
  double crossings_per_element_ = 0;  ///< how many of its contributions and sums leave a node
};

}  // namespace poseidon::comm
