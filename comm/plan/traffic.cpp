#include "comm/plan/traffic.h"

#include <algorithm>
#include <numeric>

#include "comm/plan/chunks.h"

namespace poseidon::comm {

namespace {

int64_t encoded_bytes(const Codec& codec, int64_t elements) {
  return static_cast<int64_t>(codec.bytes(static_cast<uint64_t>(elements)));
}

/// Bytes of one sample's factors.
int64_t bytes_of_row(const Codec& codec, const LayerTraffic& layer) {
  return encoded_bytes(codec, layer.factors->deltas) +
         encoded_bytes(codec, layer.factors->activations);
}

/// The number of parts of one logical shard, and of several.
struct PartCounts {
  int64_t single = 0, joint = 0;
};

PartCounts& operator+=(PartCounts& sum, const PartCounts& more) {
  sum.single += more.single;
  sum.joint += more.joint;
  return sum;
}

PartCounts operator-(const PartCounts& all, const PartCounts& some) {
  return {all.single - some.single, all.joint - some.joint};
}

/// The totals of the workers on one host.
struct HostLoad {
  int64_t workers = 0;
  PartCounts parts;     ///< partial sums that they send for each chunk
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

PartCounts counts_of(const std::vector<Part>& parts) {
  const int64_t single = std::ranges::count(parts, uint32_t{1}, &Part::count);
  return {single, std::ssize(parts) - single};
}

ClusterLoad load_of(const Assignment& assignment, int64_t global_batch) {
  ClusterLoad load{.hosts = std::vector<HostLoad>(static_cast<size_t>(assignment.hosts())),
                   .all = {}};
  for (uint32_t rank = 0; rank < assignment.workers().size(); ++rank) {
    const HostLoad own{
        .workers = 1,
        .parts = counts_of(assignment.parts_of(rank)),
        .samples = assignment.rows_of(assignment.shards_of(rank), global_batch).count};
    load.hosts[assignment.workers()[rank].host] += own;
    load.all += own;
  }
  return load;
}

/// Encoded bytes of one layer's tensors: of the contribution for one shard, of the contribution for
/// several, and of their sum.
struct EncodedBytes {
  int64_t single = 0, joint = 0, sum = 0;

  int64_t of(const PartCounts& parts) const { return parts.single * single + parts.joint * joint; }
};

EncodedBytes& operator+=(EncodedBytes& all, const EncodedBytes& more) {
  all.single += more.single;
  all.joint += more.joint;
  all.sum += more.sum;
  return all;
}

EncodedBytes operator-(const EncodedBytes& all, const EncodedBytes& some) {
  return {all.single - some.single, all.joint - some.joint, all.sum - some.sum};
}

constexpr Part kSinglePart{0, 1}, kJointPart{0, 2};

EncodedBytes encoded_bytes(WireFormat wire, const TensorTraffic& tensor, int64_t elements) {
  return {.single = encoded_bytes(contribution_codec(wire, tensor, kSinglePart), elements),
          .joint = encoded_bytes(contribution_codec(wire, tensor, kJointPart), elements),
          .sum = encoded_bytes(sum_codec(wire, tensor), elements)};
}

/// The bytes of one layer on the servers of each host.
using HeldBytes = std::vector<EncodedBytes>;

std::vector<HeldBytes> held_bytes(const Plan& plan) {
  const Assignment& assignment = plan.assignment;
  std::vector<HeldBytes> held(plan.layers.size(),
                              HeldBytes(static_cast<size_t>(assignment.hosts())));
  for (const Chunk& chunk : plan.chunks)
    for (const Piece& piece : chunk.pieces)
      held[piece.layer][assignment.servers()[chunk.server].host] += encoded_bytes(
          plan.wire, plan.layers[piece.layer].traffic.tensors[piece.tensor], piece.count);
  return held;
}

/// Adds the bytes to and from servers on other hosts: partial sums, and the sum.
void add_sums(const ClusterLoad& load, const HeldBytes& held, LayerTrafficBytes& nodes) {
  EncodedBytes all;
  for (const EncodedBytes& bytes : held) all += bytes;
  for (size_t node = 0; node < nodes.size(); ++node) {
    const HostLoad& here = load.hosts[node];
    const EncodedBytes elsewhere = all - held[node];
    nodes[node].sent +=
        elsewhere.of(here.parts) + (load.all.workers - here.workers) * held[node].sum;
    nodes[node].received +=
        here.workers * elsewhere.sum + held[node].of(load.all.parts - here.parts);
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
    if (traits_of(planned.scheme).rebuilds())
      add_factors(load, bytes_of_row(factor_codec(plan.wire), planned.traffic), traffic[layer]);
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
    nodes_.push_back({.single_sent = static_cast<double>(here.parts.single) * (1 - held),
                      .joint_sent = static_cast<double>(here.parts.joint) * (1 - held),
                      .single_received = static_cast<double>(there.parts.single) * held,
                      .joint_received = static_cast<double>(there.parts.joint) * held,
                      .sums_sent = static_cast<double>(there.workers) * held,
                      .sums_received = static_cast<double>(here.workers) * (1 - held),
                      .factors_sent = static_cast<double>(here.samples * there.workers),
                      .factors_received = static_cast<double>(here.workers * there.samples),
                      .computes = here.workers > 0});
    const NodeShare& last = nodes_.back();
    for (double NodeShare::*share :
         {&NodeShare::single_sent, &NodeShare::joint_sent, &NodeShare::single_received,
          &NodeShare::joint_received, &NodeShare::sums_sent, &NodeShare::sums_received,
          &NodeShare::factors_sent, &NodeShare::factors_received})
      mean_.*share += last.*share / hosts;
  }
  std::ranges::sort(nodes_);
  const auto repeated = std::ranges::unique(nodes_);
  nodes_.erase(repeated.begin(), repeated.end());
}

LinkBytes EvenTraffic::bytes_by_servers(const LayerTraffic& layer, const NodeShare& node) const {
  EncodedBytes bytes;
  for (const TensorTraffic& tensor : layer.tensors)
    bytes += encoded_bytes(wire_, tensor, tensor.elements);
  const auto single = static_cast<double>(bytes.single), joint = static_cast<double>(bytes.joint),
             sum = static_cast<double>(bytes.sum);
  return {single * node.single_sent + joint * node.joint_sent + sum * node.sums_sent,
          single * node.single_received + joint * node.joint_received + sum * node.sums_received};
}

LinkBytes EvenTraffic::bytes_by_factors(const LayerTraffic& layer, const NodeShare& node) const {
  const auto row = static_cast<double>(bytes_of_row(factor_codec(wire_), layer));
  return {row * node.factors_sent, row * node.factors_received};
}

}  // namespace poseidon::comm
