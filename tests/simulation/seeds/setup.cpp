#include "tests/simulation/seeds/setup.h"

#include <algorithm>
#include <optional>
#include <random>

#include "comm/wire/reachability.h"
#include "core/error.h"
#include "tests/simulation/seeds/reconfiguration.h"

namespace poseidon::comm {

namespace {

bool has_factors(const Plan& plan) {
  return std::ranges::any_of(
      plan.layers, [](const LayerPlan& layer) { return traits_of(layer.scheme).sends_factors(); });
}

/// Whether the two nodes of a fault exchange data in this job.
bool matters(const SimulatedJobOptions& options, const Fault& fault) {
  if (fault.a.role != fault.b.role) return true;
  return fault.a.role == Role::kWorker && has_factors(options.plan);
}

std::optional<NodeId> joiner_of(const SimulatedJobOptions& options) {
  if (options.arrivals.empty()) return std::nullopt;
  const bool worker = options.arrivals[0].role == Role::kWorker;
  return NodeId{options.arrivals[0].role,
                static_cast<uint16_t>(worker ? options.plan.workers() : options.plan.servers())};
}

bool is_of(const Fault& fault, NodeId node) { return fault.a == node || fault.b == node; }

std::string fault_in_failed_setup(const SimulatedJobOptions& options,
                                  const SimulatedJobResult& result) {
  if (result.outcome->finished || result.began) return "trained, though nodes lack connections";
  const NodeFailure& failure = result.outcome->failure;
  if (failure.step != 0) return "failed after the first step: " + failure.message();
  for (const Fault& fault : options.faults) {
    if (!matters(options, fault)) continue;
    const std::string words = failure.message();
    const auto says = [&](const std::string& part) { return words.find(part) != words.npos; };
    const char* why = fault.kind == Fault::Kind::kSmallMtu ? kOnlySmallMessages : " cannot reach ";
    if (says(name_of(fault.a)) && says(name_of(fault.b)) && says(why)) return "";
  }
  return "names no pair that lacks a connection: " + failure.message();
}

std::string fault_in_join(const SimulatedJobOptions& options, const SimulatedJobResult& result,
                          NodeId joiner) {
  if (!result.outcome->finished) return "did not finish: " + result.outcome->failure.message();
  for (const NodeFailure& failure : result.reconfigurations) {
    if (failure.kind == NodeFailure::Kind::kJoined) continue;
    if (failure.who != joiner) return "left a member out: " + failure.message();
    if (failure.kind != NodeFailure::Kind::kUnreached)
      return "another reason: " + failure.message();
  }
  const bool lacks = std::ranges::any_of(options.faults, [&](const Fault& fault) {
    return is_of(fault, joiner) && matters(options, fault);
  });
  const auto steps = result.steps.find(joiner.rank);
  if (lacks && joiner.role == Role::kWorker && steps != result.steps.end() &&
      steps->second == options.steps)
    return "the joiner took part without its connections";
  return "";
}

}  // namespace

SimulatedJobOptions setup_scenario(uint64_t seed) {
  std::mt19937_64 random(seed * 7 + 3);
  const auto pick = [&](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
  };
  const int64_t workers = pick(2, 4), servers = pick(1, 3);
  SimulatedJobOptions options =
      reconfiguration_job(workers, servers, workers + 2, static_cast<SchemeRule>(pick(0, 2)));
  options.seed = seed;
  options.steps = 8;
  options.network.jitter = std::chrono::microseconds(pick(0, 2000));
  std::vector<NodeId> nodes = nodes_of(options);
  const auto any_node = [&] { return nodes[static_cast<size_t>(pick(0, std::ssize(nodes) - 1))]; };
  const bool joins = pick(0, 2) == 0;
  const auto events = static_cast<int64_t>(run_job(options).events);
  if (joins) {
    options.max_workers = static_cast<uint16_t>(workers + 1);
    options.max_servers = static_cast<uint16_t>(servers + 1);
    options.arrivals = {{.role = pick(0, 1) == 0 ? Role::kServer : Role::kWorker,
                         .at_event = static_cast<uint64_t>(pick(events / 3, events / 2))}};
  }
  const std::optional<NodeId> joiner = joiner_of(options);
  for (int64_t faults = pick(1, 3); faults > 0; --faults) {
    Fault fault{.kind = pick(0, 1) == 0 ? Fault::Kind::kBlocked : Fault::Kind::kSmallMtu,
                .a = joiner ? *joiner : any_node(),
                .b = any_node()};
    if (fault.a != fault.b) options.faults.push_back(fault);
  }
  return options;
}

std::string fault_in_setup(const SimulatedJobOptions& options, const SimulatedJobResult& result) {
  if (!result.ended) return "idle for ever: " + result.idle;
  if (!result.outcome) return "no outcome";
  if (const std::optional<NodeId> joiner = joiner_of(options))
    return fault_in_join(options, result, *joiner);
  const bool lacks = std::ranges::any_of(
      options.faults, [&](const Fault& fault) { return matters(options, fault); });
  if (lacks) return fault_in_failed_setup(options, result);
  return result.outcome->finished ? "" : "did not finish: " + result.outcome->failure.message();
}

}  // namespace poseidon::comm
