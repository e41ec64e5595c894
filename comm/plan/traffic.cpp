#include "comm/plan/traffic.h"

#include <algorithm>
#include <numeric>

#include "comm/plan/chunks.h"

namespace poseidon::comm {

namespace {

int64_t bytes_of_element(DataType wire, const TensorTraffic& tensor) {
  return static_cast<int64_t>(bytes_of(wire_dtype_of(wire, tensor)));
}

int64_t factor_number_bytes(DataType wire) { return static_cast<int64_t>(bytes_of(wire)); }

/// The totals of the workers on one host.
struct HostLoad {
  int64_t workers = 0;
  int64_t parts = 0;    ///< partial sums that they send for each chunk
  int64_t samples = 0;  ///< of their logical shards
};

struct ClusterLoad {
  std::vector<HostLoad> hosts;
  HostLoad all;
};

HostLoad& operator+=(HostLoad& sum, const HostLoad& more) {
  sum.workers += more.workers;
  sum.parts += more.parts;
  sum.samples += more.samples;
  return sum;
}

ClusterLoad load_of(const Assignment& assignment, int64_t global_batch) {
  ClusterLoad load{.hosts = std::vector<HostLoad>(static_cast<size_t>(assignment.hosts())),
                   .all = {}};
  for (uint32_t rank = 0; rank < assignment.workers().size(); ++rank) {
    const HostLoad own{
        .workers = 1,
        .parts = static_cast<int64_t>(assignment.parts_of(rank).size()),
        .samples = assignment.rows_of(assignment.shards_of(rank), global_batch).count};
    load.hosts[assignment.workers()[rank].host] += own;
    load.all += own;
  }
  return load;
}

/// Wire bytes of one layer on the servers of each host.
using HeldBytes = std::vector<int64_t>;

/// By layer: its wire bytes on the servers of each host.
std::vector<HeldBytes> held_bytes(const Plan& plan) {
  const Assignment& assignment = plan.assignment;
  std::vector<HeldBytes> held(plan.layers.size(),
                              HeldBytes(static_cast<size_t>(assignment.hosts())));
  for (const Chunk& chunk : plan.chunks)
    for (const Piece& piece : chunk.pieces)
      held[piece.layer][assignment.servers()[chunk.server].host] +=
          piece.count * static_cast<int64_t>(bytes_of(wire_dtype_of(plan, chunk)));
  return held;
}

/// Adds the bytes to and from servers on other hosts: partial sums, and the sum.
void add_sums(const ClusterLoad& load, const HeldBytes& held, LayerTrafficBytes& nodes) {
  const int64_t all_bytes = std::accumulate(held.begin(), held.end(), int64_t{0});
  for (size_t node = 0; node < nodes.size(); ++node) {
    const HostLoad& here = load.hosts[node];
    const int64_t far_bytes = all_bytes - held[node];
    nodes[node].sent += here.parts * far_bytes + (load.all.workers - here.workers) * held[node];
    nodes[node].received += here.workers * far_bytes + (load.all.parts - here.parts) * held[node];
  }
}

void add_factors(const ClusterLoad& load, int64_t row_bytes, LayerTrafficBytes& nodes) {
  for (size_t node = 0; node < nodes.size(); ++node) {
    const HostLoad& here = load.hosts[node];
    nodes[node].sent += here.samples * row_bytes * (load.all.workers - here.workers);
    nodes[node].received += here.workers * (load.all.samples - here.samples) * row_bytes;
  }
}

/// The ratio of the servers on this host to all servers.
double share_of_servers(const Assignment& assignment, uint32_t host) {
  const auto here = std::ranges::count(assignment.servers(), host, &AssignedServer::host);
  return static_cast<double>(here) / static_cast<double>(assignment.servers().size());
}

}  // namespace

std::vector<LayerTrafficBytes> expected_traffic(const Plan& plan) {
  std::vector<LayerTrafficBytes> traffic(
      plan.layers.size(), LayerTrafficBytes(static_cast<size_t>(plan.assignment.hosts())));
  const ClusterLoad load = load_of(plan.assignment, plan.global_batch);
  const std::vector<HeldBytes> held = held_bytes(plan);
  for (size_t layer = 0; layer < plan.layers.size(); ++layer) {
    add_sums(load, held[layer], traffic[layer]);
    const LayerPlan& planned = plan.layers[layer];
    if (planned.scheme == Scheme::kSfb)
      add_factors(load,
                  (planned.traffic.rows + planned.traffic.columns) * factor_number_bytes(plan.wire),
                  traffic[layer]);
  }
  return traffic;
}

int64_t total_bytes(const LayerTrafficBytes& nodes) {
  int64_t total = 0;
  for (const NodeBytes& node : nodes) total += node.sent + node.received;
  return total;
}

EvenTraffic::EvenTraffic(const PlanRequest& request) : wire_(request.wire) {
  const Assignment assignment = assignment_of(request);
  const ClusterLoad load = load_of(assignment, request.global_batch);
  const auto hosts = static_cast<double>(assignment.hosts());
  for (size_t node = 0; node < load.hosts.size(); ++node) {
    const HostLoad& here = load.hosts[node];
    const HostLoad there{.workers = load.all.workers - here.workers,
                         .parts = load.all.parts - here.parts,
                         .samples = load.all.samples - here.samples};
    const double held = share_of_servers(assignment, static_cast<uint32_t>(node));
    nodes_.push_back({.sums_sent = static_cast<double>(here.parts) * (1 - held) +
                                   static_cast<double>(there.workers) * held,
                      .sums_received = static_cast<double>(here.workers) * (1 - held) +
                                       static_cast<double>(there.parts) * held,
                      .factors_sent = static_cast<double>(here.samples * there.workers),
                      .factors_received = static_cast<double>(here.workers * there.samples),
                      .computes = here.workers > 0});
    mean_.sums_sent += nodes_.back().sums_sent / hosts;
    mean_.factors_sent += nodes_.back().factors_sent / hosts;
  }
  std::ranges::sort(nodes_);
  const auto repeated = std::ranges::unique(nodes_);
  nodes_.erase(repeated.begin(), repeated.end());
}

double EvenTraffic::bytes_of(std::span<const TensorTraffic> tensors) const {
  int64_t bytes = 0;
  for (const TensorTraffic& tensor : tensors)
    bytes += tensor.elements * bytes_of_element(wire_, tensor);
  return static_cast<double>(bytes);
}

double EvenTraffic::row_bytes(const LayerTraffic& layer) const {
  return static_cast<double>((layer.rows + layer.columns) * factor_number_bytes(wire_));
}

// On average a node receives as many bytes as it sends, because another node receives each sent
// byte.
double EvenTraffic::ps_bytes(std::span<const TensorTraffic> tensors) const {
  return 2 * mean_.sums_sent * bytes_of(tensors);
}
double EvenTraffic::factor_bytes(const LayerTraffic& layer) const {
  return 2 * mean_.factors_sent * row_bytes(layer);
}

}  // namespace poseidon::comm
