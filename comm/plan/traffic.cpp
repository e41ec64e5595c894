#include "comm/plan/traffic.h"

#include <algorithm>
#include <numeric>

#include "comm/plan/chunks.h"
#include "comm/plan/shard_parts.h"

namespace poseidon::comm {

namespace {

int64_t bytes_of_element(const std::string& wire, const TensorTraffic& tensor) {
  return static_cast<int64_t>(bytes_of(number_of(wire, tensor)));
}

Part shards_of(const Layout& layout, int64_t worker) {
  return shards_of_worker(static_cast<uint32_t>(layout.logical_shards),
                          static_cast<uint32_t>(layout.workers), static_cast<uint32_t>(worker));
}

/// By worker: how many partial sums of each chunk it sends.
std::vector<int64_t> parts_by_worker(const Layout& layout) {
  std::vector<int64_t> parts;
  for (int64_t worker = 0; worker < layout.workers; ++worker)
    parts.push_back(static_cast<int64_t>(
        parts_within(static_cast<uint32_t>(layout.logical_shards), shards_of(layout, worker))
            .size()));
  return parts;
}

/// By worker: samples of its logical shards. The first shards have one more, where they cannot all
/// be equal.
std::vector<int64_t> samples_by_worker(const Layout& layout) {
  const int64_t each = layout.global_batch / layout.logical_shards;
  const int64_t more = layout.global_batch % layout.logical_shards;
  std::vector<int64_t> samples;
  for (int64_t worker = 0; worker < layout.workers; ++worker) {
    const Part shards = shards_of(layout, worker);
    const int64_t larger = std::clamp<int64_t>(more - shards.first, 0, shards.count);
    samples.push_back(shards.count * each + larger);
  }
  return samples;
}

int64_t sum(const std::vector<int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), int64_t{0});
}

/// Bytes of a layer that lie on the servers of each node.
using HeldBytes = std::vector<int64_t>;

/// By layer.
std::vector<HeldBytes> held_bytes(const Layout& layout, const Plan& plan) {
  std::vector<HeldBytes> held(plan.layers.size(), HeldBytes(static_cast<size_t>(layout.nodes())));
  for (const Chunk& chunk : plan.chunks)
    for (const Piece& piece : chunk.pieces)
      held[piece.layer][static_cast<size_t>(layout.node_of_server(chunk.server))] +=
          piece.count * static_cast<int64_t>(bytes_of(number_of(plan, chunk)));
  return held;
}

/// Adds what goes to servers on other nodes and comes back: partial sums, and the sum.
void add_sums(const Layout& layout, const std::vector<int64_t>& parts, const HeldBytes& held,
              LayerTrafficBytes& nodes) {
  const int64_t all_bytes = sum(held), all_parts = sum(parts);
  for (size_t node = 0; node < nodes.size(); ++node) {
    const bool has_worker = node < parts.size();
    const int64_t own_parts = has_worker ? parts[node] : 0;
    const int64_t far_bytes = has_worker ? all_bytes - held[node] : 0;
    const int64_t far_workers = layout.workers - (has_worker ? 1 : 0);
    nodes[node].sent += own_parts * far_bytes + far_workers * held[node];
    nodes[node].received += far_bytes + (all_parts - own_parts) * held[node];
  }
}

void add_factors(const Layout& layout, const std::vector<int64_t>& samples, int64_t row_bytes,
                 LayerTrafficBytes& nodes) {
  const int64_t all = sum(samples);
  for (int64_t worker = 0; worker < layout.workers; ++worker) {
    const auto at = static_cast<size_t>(worker);
    nodes[at].sent += samples[at] * row_bytes * (layout.workers - 1);
    nodes[at].received += (all - samples[at]) * row_bytes;
  }
}

template <class Source>
Layout layout_from(const Source& source) {
  return {.workers = source.workers,
          .servers = source.servers,
          .servers_apart = source.servers_apart,
          .logical_shards = source.logical_shards == 0 ? source.workers : source.logical_shards,
          .global_batch = source.global_batch,
          .wire = source.wire};
}

}  // namespace

int64_t Layout::factor_bytes() const { return bytes_of_element(wire, {}); }

Layout layout_of(const PlanRequest& request) { return layout_from(request); }
Layout layout_of(const Plan& plan) { return layout_from(plan); }

std::vector<LayerTrafficBytes> expected_traffic(const Plan& plan) {
  const Layout layout = layout_of(plan);
  std::vector<LayerTrafficBytes> traffic(plan.layers.size(),
                                         LayerTrafficBytes(static_cast<size_t>(layout.nodes())));
  const std::vector<int64_t> parts = parts_by_worker(layout), samples = samples_by_worker(layout);
  const std::vector<HeldBytes> held = held_bytes(layout, plan);
  for (size_t layer = 0; layer < plan.layers.size(); ++layer) {
    add_sums(layout, parts, held[layer], traffic[layer]);
    const LayerPlan& planned = plan.layers[layer];
    if (planned.scheme == Scheme::kSfb)
      add_factors(layout, samples,
                  (planned.traffic.rows + planned.traffic.columns) * layout.factor_bytes(),
                  traffic[layer]);
  }
  return traffic;
}

int64_t total_bytes(const LayerTrafficBytes& nodes) {
  int64_t total = 0;
  for (const NodeBytes& node : nodes) total += node.sent + node.received;
  return total;
}

EvenTraffic::EvenTraffic(const Layout& layout) : layout_(layout) {
  const std::vector<int64_t> parts = parts_by_worker(layout);
  const int64_t all = sum(parts) + layout.workers;
  int64_t crossings = 0;
  for (int64_t server = 0; server < layout.servers; ++server) {
    const int64_t host = layout.node_of_server(server);
    crossings += host < layout.workers ? all - parts[static_cast<size_t>(host)] - 1 : all;
  }
  crossings_per_element_ = static_cast<double>(crossings) / static_cast<double>(layout.servers);
}

double EvenTraffic::ps_bytes(std::span<const TensorTraffic> tensors) const {
  int64_t bytes = 0;
  for (const TensorTraffic& tensor : tensors)
    bytes += tensor.elements * bytes_of_element(layout_.wire, tensor);
  return 2 * crossings_per_element_ * static_cast<double>(bytes) /
         static_cast<double>(layout_.nodes());
}

double EvenTraffic::factor_bytes(int64_t rows, int64_t columns) const {
  return 2 *
         static_cast<double>(layout_.global_batch * (rows + columns) * (layout_.workers - 1) *
                             layout_.factor_bytes()) /
         static_cast<double>(layout_.nodes());
}

}  // namespace poseidon::comm
