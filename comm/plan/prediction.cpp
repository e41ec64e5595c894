#include "comm/plan/prediction.h"

#include <algorithm>

#include "comm/plan/scheme_choice.h"
#include "comm/plan/scheme_costs.h"

namespace poseidon::comm {

namespace {

using Computing = std::vector<LayerStep>;

/// Removes the weight gradient, about half of the backward pass, from the time of a layer whose
/// gradient is rebuilt with `flop` operations. Adds the rebuild to the forward pass. A rebuild
/// reads and writes at least as much memory as the local gradient, so it takes at least as long.
void move_gradient_to_rebuild(double flop, double gflops, LayerStep& step) {
  const double gradient_ms = step.backward / 2;
  step.backward -= gradient_ms;
  step.forward += std::max(gradient_ms, flop / (gflops * 1e6));
}

/// Adds `by_ms` of processor time for network I/O, which slows all layers by the same factor.
Computing prolonged(Computing steps, double by_ms) {
  double all = 0;
  for (const LayerStep& step : steps) all += step.forward + step.backward;
  if (all <= 0) return steps;
  for (LayerStep& step : steps) {
    step.forward *= 1 + by_ms / all;
    step.backward *= 1 + by_ms / all;
  }
  return steps;
}

double processor_ms(const PlanRequest& request, const LinkLoad& node) {
  return node.bytes() * request.processor_ns_per_byte * 1e-6;
}

double step_ms(Overlap overlap, const Computing& steps) {
  switch (overlap) {
    case Overlap::kPriority: return step_with_priority(steps);
    case Overlap::kBarrier: return step_with_barrier(steps);
    case Overlap::kNone: break;
  }
  return step_without_overlap(steps);
}

/// The milliseconds of a step if `bytes` of each layer cross one direction of a node's link.
double step_ms(const PlanRequest& request, Computing steps, const std::vector<double>& bytes) {
  const double bytes_per_ms = request.link_mbps * 125;
  for (size_t i = 0; i < bytes.size(); ++i) steps[i + 1].comm = bytes[i] / bytes_per_ms;
  return step_ms(request.overlap, steps);
}

}  // namespace

std::vector<LayerStep> computing_of(const PlanRequest& request,
                                    const std::vector<Scheme>& schemes) {
  Computing steps{
      {.forward = request.time_before.forward_ms, .backward = request.time_before.backward_ms}};
  const ClusterSize cluster{static_cast<double>(request.workers),
                            static_cast<double>(request.servers)};
  for (size_t i = 0; i < schemes.size(); ++i) {
    LayerStep step{.forward = request.times[i].forward_ms,
                   .backward = request.times[i].backward_ms};
    const double flop =
        costs_of(schemes[i]).rebuild_flop(request.layers[i], batch_per_worker(request), cluster);
    if (flop > 0 && request.workers > 1 && request.rebuild_gflops > 0)
      move_gradient_to_rebuild(flop, request.rebuild_gflops, step);
    steps.push_back(step);
  }
  return steps;
}

std::vector<LayerStep> computing_of(const PlanRequest& request, const std::vector<Scheme>& schemes,
                                    const LinkLoad& node) {
  return prolonged(computing_of(request, schemes), processor_ms(request, node));
}

std::vector<LinkLoad> link_loads(const Plan& plan) {
  std::vector<LinkLoad> nodes(static_cast<size_t>(plan.assignment.hosts()),
                              {.sent = {}, .received = {}, .computes = false});
  for (const AssignedWorker& worker : plan.assignment.workers()) nodes[worker.host].computes = true;
  for (const LayerTrafficBytes& layer : expected_traffic(plan))
    for (size_t node = 0; node < nodes.size(); ++node) {
      nodes[node].sent.push_back(static_cast<double>(layer[node].sent));
      nodes[node].received.push_back(static_cast<double>(layer[node].received));
    }
  return nodes;
}

std::vector<LinkLoad> link_loads(const PlanRequest& request, const EvenTraffic& traffic,
                                 const std::vector<Scheme>& schemes) {
  std::vector<LinkLoad> nodes;
  for (const EvenTraffic::NodeShare& share : traffic.nodes()) {
    LinkLoad& node = nodes.emplace_back();
    node.computes = share.computes;
    for (size_t i = 0; i < schemes.size(); ++i) {
      const LinkBytes bytes = costs_of(schemes[i]).link_bytes(request.layers[i], traffic, share);
      node.sent.push_back(bytes.sent);
      node.received.push_back(bytes.received);
    }
  }
  return nodes;
}

double predicted_step_ms(const PlanRequest& request, const std::vector<Scheme>& schemes,
                         const std::vector<LinkLoad>& nodes) {
  if (request.times.size() != schemes.size()) return 0;
  if (request.workers == 1) return step_ms(request.overlap, computing_of(request, schemes));
  if (request.link_mbps <= 0) return 0;
  double slowest = 0;
  for (const LinkLoad& node : nodes) {
    const Computing steps =
        node.computes ? computing_of(request, schemes, node) : computing_of(request, schemes);
    for (const std::vector<double>* bytes : {&node.sent, &node.received})
      slowest = std::max(slowest, step_ms(request, steps, *bytes));
  }
  return slowest;
}

}  // namespace poseidon::comm
