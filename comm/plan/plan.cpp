#include "comm/plan/plan.h"

#include <algorithm>
#include <optional>

#include "comm/plan/chunks.h"
#include "comm/plan/prediction.h"
#include "comm/plan/scheme_choice.h"
#include "comm/plan/scheme_costs.h"
#include "comm/plan/traffic.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {

/// Limit on the ratio of the fullest server's elements to the mean of all servers.
constexpr double kEvenEnough = 1.1;
/// Steps whose times differ by a smaller fraction are equally fast.
constexpr double kAsFast = 1e-9;

/// Whether both have the same numbers of workers, servers and logical shards, and the same
/// servers_apart().
bool same_counts(const Assignment& one, const Assignment& other) {
  return one.workers().size() == other.workers().size() &&
         one.servers().size() == other.servers().size() &&
         one.logical_shards() == other.logical_shards() &&
         one.servers_apart() == other.servers_apart();
}

Assignment even_assignment(const PlanRequest& request) {
  const bool by_default = request.logical_shards == 0;
  return comm::even_assignment(request.workers, request.servers, request.servers_apart,
                               by_default ? request.workers : request.logical_shards);
}

void check_request(const PlanRequest& request) {
  check(request.workers >= 1 && request.servers >= 1,
        "a plan needs at least one worker and one server");
  check(request.global_batch >= 1, "a plan needs a batch of at least one sample");
  check(request.logical_shards == 0 || request.logical_shards >= request.workers,
        "a plan needs a logical shard for each worker");
  check(!request.assignment || same_counts(*request.assignment, even_assignment(request)),
        "an assignment must have the workers, servers and logical shards of its request");
}

/// A plan without chunks.
Plan with_schemes(const PlanRequest& request, const std::vector<Scheme>& schemes) {
  Plan plan{.assignment = assignment_of(request),
            .global_batch = request.global_batch,
            .policy = request.policy,
            .wire = request.wire,
            .overlap = request.overlap,
            .staleness = request.staleness,
            .layers = {},
            .chunks = {},
            .link_mbps = request.link_mbps,
            .processor_ns_per_byte = request.processor_ns_per_byte};
  for (size_t i = 0; i < schemes.size(); ++i)
    plan.layers.push_back({.traffic = request.layers[i], .scheme = schemes[i]});
  return plan;
}

void add_chunks(Plan& plan, int64_t chunk_bytes) {
  const std::vector<Piece> tensors = ps_tensors(plan.layers);
  // If chunks of the usual size do not balance the servers, try smaller chunks.
  for (int64_t most = std::max(chunk_bytes, kSmallBytes);; most = std::max(most / 2, kSmallBytes)) {
    plan.chunks = cut_chunks(plan, tensors, most);
    assign_servers(plan.chunks, plan.servers());
    if (most <= kSmallBytes || hottest_over_mean(plan.chunks, plan.servers()) <= kEvenEnough)
      return;
  }
}

void add_prediction(Plan& plan, const PlanRequest& request) {
  std::vector<Scheme> schemes;
  for (const LayerPlan& layer : plan.layers) schemes.push_back(layer.scheme);
  plan.predicted_step_ms = predicted_step_ms(request, schemes, link_loads(plan));
}

Plan whole_plan(const PlanRequest& request, const Schemes& schemes) {
  Plan plan = with_schemes(request, schemes);
  add_chunks(plan, request.chunk_bytes);
  complete(plan);
  add_prediction(plan, request);
  return plan;
}

/// Whether the chunks fit the wire format of the plan.
bool chunks_fit(const Plan& plan) {
  return std::ranges::all_of(plan.chunks, [&](const Chunk& chunk) {
    return std::ranges::all_of(chunk.pieces, [&](const Piece& piece) {
      return fault_in_chunk(plan, chunk, piece).empty();
    });
  });
}

/// A layer's earlier scheme, adapted to this number of workers.
Scheme followed(Scheme earlier, int64_t workers) {
  return traits_of(earlier).sends_factors() ? earlier : scheme_without_factors(workers);
}

void check_same_layers(const PlanRequest& request, const Plan& earlier) {
  bool same = request.layers.size() == earlier.layers.size();
  for (size_t i = 0; same && i < request.layers.size(); ++i)
    same = request.layers[i].name == earlier.layers[i].traffic.name &&
           request.layers[i].tensors == earlier.layers[i].traffic.tensors;
  if (!same)
    throw ConfigError("expected an earlier plan with the layers and tensors of this network");
}

}  // namespace

Assignment assignment_of(const PlanRequest& request) {
  return request.assignment ? *request.assignment : even_assignment(request);
}

bool keeps_assignment(const PlanRequest& request, const Plan& earlier) {
  const auto has_enough = [&](const Part& shards) { return shards.count >= request.devices; };
  return !request.assignment && same_counts(even_assignment(request), earlier.assignment) &&
         std::ranges::all_of(earlier.assignment.ranges(), has_enough);
}

Plan make_plan(const PlanRequest& request) {
  check_request(request);
  std::optional<Plan> best;
  for (const Schemes& schemes : choose_schemes(request)) {
    Plan plan = whole_plan(request, schemes);
    if (!best || plan.predicted_step_ms < best->predicted_step_ms * (1 - kAsFast))
      best = std::move(plan);
  }
  return *best;
}

Plan follow_plan(const PlanRequest& request, const Plan& earlier) {
  check_request(request);
  check_same_layers(request, earlier);
  std::vector<Scheme> schemes;
  for (size_t i = 0; i < request.layers.size(); ++i) {
    schemes.push_back(followed(earlier.layers[i].scheme, request.workers));
    check_scheme(request.layers[i], schemes.back());
  }
  Plan plan = with_schemes(request, schemes);
  if (keeps_assignment(request, earlier)) plan.assignment = with_fresh_ids(earlier.assignment);
  plan.policy = earlier.policy;
  if (earlier.link_mbps > 0) plan.link_mbps = earlier.link_mbps;
  if (earlier.processor_ns_per_byte > 0) plan.processor_ns_per_byte = earlier.processor_ns_per_byte;
  const bool both_have_servers = plan.workers() > 1 && earlier.workers() > 1;
  if (both_have_servers && plan.servers() == earlier.servers()) plan.chunks = earlier.chunks;
  // If the earlier plan has another wire format, its chunks may not fit this one.
  if (plan.chunks.empty() || !chunks_fit(plan)) add_chunks(plan, request.chunk_bytes);
  complete(plan);
  add_prediction(plan, request);
  return plan;
}

bool can_survive(const Plan& plan, size_t workers, size_t servers) {
  return workers >= 1 && servers >= 1 && plan.logical_shards() >= static_cast<int64_t>(workers);
}

Plan next_plan(const Plan& plan, const NextMembers& members, int64_t chunk_bytes) {
  Plan next = plan;
  next.assignment = next_assignment(plan.assignment, members);
  next.predicted_step_ms = 0;
  for (LayerPlan& layer : next.layers) layer.scheme = followed(layer.scheme, next.workers());
  // A plan for a single worker has no chunks.
  if (next.workers() == 1 || plan.workers() == 1 || next.servers() != plan.servers()) {
    next.chunks.clear();
    add_chunks(next, chunk_bytes);
  }
  complete(next);
  return next;
}

void complete(Plan& plan) {
  const ClusterSize cluster{static_cast<double>(plan.workers()),
                            static_cast<double>(plan.servers())};
  const double batch = static_cast<double>(plan.global_batch) / cluster.workers;
  const std::vector<LayerTrafficBytes> traffic = expected_traffic(plan);
  int64_t total = 0;
  const auto nodes = static_cast<double>(plan.assignment.hosts());
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    LayerPlan& layer = plan.layers[i];
    for (const Scheme scheme : kSendingSchemes)
      layer.formula_bytes[scheme] = costs_of(scheme).formula_bytes(layer.traffic, batch, cluster);
    const int64_t bytes = total_bytes(traffic[i]);
    layer.bytes = static_cast<double>(bytes) / nodes;
    total += bytes;
  }
  plan.bytes_per_node = static_cast<double>(total) / nodes;
  plan.hottest_shard_over_mean = hottest_over_mean(plan.chunks, plan.servers());
}

}  // namespace poseidon::comm
