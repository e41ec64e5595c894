#include "tests/simulation/seeds/reconfiguration.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "comm/simulation/model.h"
#include "core/error.h"
#include "tests/simulation/seeds/scenario.h"

namespace poseidon::comm {

using namespace std::chrono_literals;

namespace {

std::vector<LayerTraffic> few_layers() {
  const auto linear = [](const char* name, int64_t rows, int64_t columns) {
    return LayerTraffic{.name = name,
                        .type = "linear",
                        .rows = rows,
                        .columns = columns,
                        .linear = true,
                        .tensors = {{"weight", rows * columns, false}, {"bias", rows, false, true}},
                        .factors = FactorSizes{.deltas = rows, .activations = columns}};
  };
  return {{.name = "conv", .type = "convolution", .tensors = {{"weight", 16'500, false}}},
          {.name = "bn",
           .type = "batch_norm",
           .tensors = {{"scale", 8, false, true}, {"running_mean", 8, true, true}}},
          linear("ip1", 6, 5),
          linear("ip2", 3, 6)};
}

constexpr int64_t kMaxFaults = 3;

/// The node that the scenario cuts off from all others, if any. Only such a scenario has more than
/// kMaxFaults faults.
std::optional<NodeId> cut_off(const SimulatedJobOptions& options) {
  if (std::ssize(options.faults) <= kMaxFaults) return std::nullopt;
  const Fault& first = options.faults[0];
  const bool is_it = std::ranges::all_of(
      options.faults, [&](const Fault& fault) { return fault.a == first.a || fault.b == first.a; });
  return is_it ? first.a : first.b;
}

/// The nodes that a fault or a divergence affects.
std::set<NodeId> failed_nodes(const SimulatedJobOptions& options) {
  std::set<NodeId> nodes;
  if (options.diverges) nodes.insert({Role::kWorker, options.diverges->first});
  if (const std::optional<NodeId> node = cut_off(options)) {
    nodes.insert(*node);
    return nodes;
  }
  for (const Fault& fault : options.faults) {
    nodes.insert(fault.a);
    if (fault.kind == Fault::Kind::kCut || fault.kind == Fault::Kind::kBlocked)
      nodes.insert(fault.b);
  }
  return nodes;
}

int64_t failed_nodes(const SimulatedJobOptions& options, Role role) {
  return std::ranges::count(failed_nodes(options), role, &NodeId::role);
}

bool could_go_on(const SimulatedJobOptions& options) {
  return failed_nodes(options, Role::kWorker) + options.min_workers <= options.plan.workers() &&
         failed_nodes(options, Role::kServer) < options.plan.servers();
}

/// Each shard of a layer must enter the sum of a step once. All shards of a layer must enter it in
/// the same view.
std::string fault_in_sums(const SimulatedJobOptions& options, const SimulatedJobResult& result) {
  const auto shards = static_cast<uint32_t>(options.plan.logical_shards());
  for (uint64_t step = 0; step < static_cast<uint64_t>(options.steps); ++step)
    for (uint32_t layer = 0; layer < options.plan.layers.size(); ++layer) {
      std::set<uint32_t> views;
      for (uint32_t shard = 0; shard < shards; ++shard) {
        const auto given = result.given.find({step, layer, shard});
        if (given == result.given.end())
          return text("shard ", shard, " of layer ", layer, " is missing in step ", step);
        if (given->second.second != 1)
          return text("shard ", shard, " of layer ", layer, " counts ", given->second.second,
                      " times in step ", step);
        views.insert(given->second.first);
      }
      if (views.size() > 1) return text("step ", step, " is summed of two views");
    }
  return "";
}

std::string fault_in_values(const SimulatedJobOptions& options, const SimulatedJobResult& result) {
  std::map<int64_t, uint32_t> expected;
  const auto expected_after = [&](int64_t step) {
    if (!expected.contains(step))
      expected[step] = reference_digest(options.plan, options.seed, step);
    return expected[step];
  };
  const bool drifted =
      !result.outcome->finished && result.outcome->failure.kind == NodeFailure::Kind::kDiverged;
  for (const auto& [rank, step] : result.steps)
    // Divergence spoils the values of all workers if there was no checkpoint to return to.
    if (!drifted && !failed_nodes(options).contains({Role::kWorker, rank}) &&
        result.digests.at(rank) != expected_after(step))
      return text("worker ", rank, " has other values after ", step, " steps than one alone");
  for (const auto& [step, digest] : result.checkpoints)
    if (digest != expected_after(step))
      return text("the checkpoint of step ", step, " is not that of an undisturbed run");
  if (!result.unagreed.empty())
    return text("the checkpoint of step ", result.unagreed[0], " was written before all agreed");
  return "";
}

std::string fault_in_finished(const SimulatedJobOptions& options,
                              const SimulatedJobResult& result) {
  for (const auto& [rank, step] : result.steps)
    if (!failed_nodes(options).contains({Role::kWorker, rank}) && step != options.steps)
      return text("worker ", rank, " finished after ", step, " steps");
  // A checkpoint in progress is dropped when a member fails, so only the last one is certain.
  if (!result.checkpoints.contains(options.steps)) return "there is no checkpoint of the last step";
  return fault_in_sums(options, result);
}

/// With sums in flight, each view must start after a checkpoint, or at step 0 if there is none yet.
/// A view must not skip a later checkpoint.
std::string fault_in_views(const SimulatedJobOptions& options, const SimulatedJobResult& result) {
  if (options.plan.staleness == 0) return "";
  int64_t before = 0;
  for (const int64_t step : result.began_after) {
    if (step != 0 && !result.checkpoints.contains(step))
      return text("a view began after step ", step, ", of which there is no checkpoint");
    if (step < before && options.damaged.empty())
      return text("a view began after step ", step, ", behind ", before);
    before = step;
  }
  return "";
}

}  // namespace

SimulatedJobOptions reconfiguration_job(int64_t workers, int64_t servers, int64_t shards,
                                        SchemeRule scheme, WireFormat wire) {
  PlanRequest request;
  request.wire = wire;
  request.workers = workers;
  request.servers = servers;
  request.logical_shards = shards;
  request.global_batch = shards + 1;
  request.scheme = scheme;
  request.layers = few_layers();
  SimulatedJobOptions options{.plan = make_plan(request), .network = {}};
  options.network.jitter = 300us;
  options.steps = 4;
  options.agree_every = 2;
  options.timeout = 3s;
  options.recovers = true;
  return options;
}

std::vector<Fault> cut_off(NodeId node, const std::vector<NodeId>& nodes, uint64_t at_event) {
  std::vector<Fault> faults;
  for (const NodeId other : nodes)
    for (const bool hears : {false, true})
      if (other != node)
        faults.push_back({.kind = Fault::Kind::kBlocked,
                          .at_event = at_event,
                          .a = hears ? other : node,
                          .b = hears ? node : other});
  return faults;
}

namespace {

SimulatedJobOptions losing_scenario(uint64_t seed, int64_t staleness) {
  std::mt19937_64 random(seed);
  const auto pick = [&](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
  };
  const int64_t workers = pick(2, 4), servers = pick(1, 3);
  const WireFormat wire = pick(0, 2) == 0 ? WireFormat::kInt8 : WireFormat::kFp32;
  SimulatedJobOptions options = reconfiguration_job(workers, servers, pick(workers, workers + 4),
                                                    static_cast<SchemeRule>(pick(0, 2)), wire);
  options.plan.staleness = staleness;
  options.seed = seed;
  options.steps = pick(2, 6) + 2 * staleness;
  options.network.jitter = std::chrono::microseconds(pick(0, 2000));
  if (pick(0, 2) == 0) options.network.duplication = options.network.outdated = 0.1;
  options.compute_jitter = static_cast<double>(pick(0, 20)) * 0.1;
  const auto events = static_cast<int64_t>(run_job(options).events);
  if (workers > 2 && pick(0, 4) == 0) {
    // No other fault in this run: a worker that fails before the divergence is found has already
    // spoiled the sums.
    options.diverges = {static_cast<uint16_t>(pick(0, workers - 1)),
                        static_cast<uint64_t>(pick(0, options.steps - 1))};
    options.digest_every = pick(0, 2);
    return options;
  }
  if (staleness > 0 && pick(0, 3) == 0)
    for (int64_t damaged = pick(1, 3); damaged > 0; --damaged)
      options.damaged.push_back(options.agree_every * pick(1, options.steps / 2));
  const std::vector<NodeId> nodes = nodes_of(options);
  const auto any_node = [&] { return nodes[static_cast<size_t>(pick(0, std::ssize(nodes) - 1))]; };
  if (nodes.size() > 3 && pick(0, 7) == 0) {
    options.faults = cut_off(any_node(), nodes, static_cast<uint64_t>(pick(0, events)));
    return options;
  }
  for (int64_t faults = pick(1, kMaxFaults), at = pick(0, events); faults > 0; --faults) {
    Fault fault{.at_event = static_cast<uint64_t>(at), .a = any_node(), .b = any_node()};
    constexpr std::array kOthers{Fault::Kind::kPause, Fault::Kind::kCut, Fault::Kind::kLeave,
                                 Fault::Kind::kBlocked};
    if (pick(0, 1) == 0) fault.kind = kOthers[static_cast<size_t>(pick(0, 3))];
    options.faults.push_back(fault);
    at += pick(0, 200);  // may also happen during a reconfiguration
  }
  return options;
}

}  // namespace

SimulatedJobOptions reconfiguration_scenario(uint64_t seed) { return losing_scenario(seed, 0); }

SimulatedJobOptions late_scenario(uint64_t seed) {
  return losing_scenario(seed, 1 + static_cast<int64_t>(seed % 2));
}

SimulatedJobOptions joining_scenario(uint64_t seed) {
  std::mt19937_64 random(~seed);
  const auto pick = [&](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
  };
  SimulatedJobOptions options = reconfiguration_scenario(seed);
  options.max_workers = static_cast<uint16_t>(options.plan.logical_shards());
  options.max_servers = static_cast<uint16_t>(options.plan.servers() + pick(0, 1));
  // If the only server is cut off, no failure can be attributed to the right node.
  if (pick(0, 2) == 0 || (cut_off(options) && !could_go_on(options))) options.faults.clear();
  SimulatedJobOptions undisturbed = options;
  undisturbed.faults.clear();
  const auto events = static_cast<int64_t>(run_job(undisturbed).events);
  // A node that arrives before all members have joined may get the rank for which a fault or a
  // divergence is planned.
  const int64_t first = std::max(pick(0, events), events / 5);
  for (int64_t arrivals = pick(1, 3), at = first; arrivals > 0; --arrivals) {
    const Role role = pick(0, 2) == 0 ? Role::kServer : Role::kWorker;
    options.arrivals.push_back({.role = role, .at_event = static_cast<uint64_t>(at)});
    if (options.diverges && pick(0, 1) == 0)
      options.arrivals.back().host_of = NodeId{Role::kWorker, options.diverges->first};
    at += pick(0, 300);
  }
  // The joiner may fail too, unless another fault must be the only one.
  const bool may_be_lost = !options.diverges && std::ssize(options.faults) < kMaxFaults;
  if (pick(0, 3) == 0 && may_be_lost && options.arrivals[0].role == Role::kWorker)
    options.faults.push_back(
        {.at_event = options.arrivals[0].at_event + static_cast<uint64_t>(pick(0, 400)),
         .a = {Role::kWorker, static_cast<uint16_t>(options.plan.workers())}});
  return options;
}

std::vector<NodeId> nodes_of(const SimulatedJobOptions& options) {
  std::vector<NodeId> nodes;
  for (uint16_t rank = 0; rank < options.plan.workers(); ++rank)
    nodes.push_back({Role::kWorker, rank});
  for (uint16_t rank = 0; rank < options.plan.servers(); ++rank)
    nodes.push_back({Role::kServer, rank});
  return nodes;
}

std::string fault_in_reconfiguration(const SimulatedJobOptions& options,
                                     const SimulatedJobResult& result) {
  if (!result.ended) return "idle for ever: " + result.idle;
  if (!result.outcome) return "no outcome";
  for (const NodeFailure& failure : result.reconfigurations)
    if (failure.kind != NodeFailure::Kind::kJoined && failure.step == 0)
      return "went on before the first step: " + failure.message();
  if (std::string fault = fault_in_values(options, result); !fault.empty()) return fault;
  if (std::string fault = fault_in_views(options, result); !fault.empty()) return fault;
  if (result.admitted_again > 0) return "a node joined on whose host a worker had drifted";
  // The node that is cut off still has connections to joiners, and may continue with them.
  const std::optional<NodeId> node = result.joined == 0 ? cut_off(options) : std::nullopt;
  const auto first = std::ranges::find_if(result.reconfigurations, [](const NodeFailure& why) {
    return why.kind != NodeFailure::Kind::kJoined;
  });
  if (node && could_go_on(options) && first != result.reconfigurations.end() && first->who != *node)
    return text(name_of(first->who), " was lost, not who was cut off");
  if (result.outcome->finished) return fault_in_finished(options, result);
  if (options.diverges && result.outcome->failure.kind == NodeFailure::Kind::kDiverged)
    return result.checkpoints.empty() ? "" : "did not go back to a checkpoint";
  const bool is_due = result.began && !halts_before_first_step(options, result);
  if (is_due && could_go_on(options)) return "did not go on: " + result.outcome->failure.message();
  return "";
}

}  // namespace poseidon::comm
