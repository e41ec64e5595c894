#pragma once

#include <numeric>
#include <vector>

#include "comm/plan/cost_model.h"
#include "comm/plan/plan.h"
#include "comm/plan/traffic.h"

/// How long a step takes, by the formulas of docs/plan.md.
namespace poseidon::comm {

/// What crosses one node's link in a step, bytes by layer.
struct LinkLoad {
  std::vector<double> sent, received;
  bool computes = true;  ///< whether the node has a worker

  double bytes() const {
    return std::accumulate(sent.begin(), sent.end(), 0.0) +
           std::accumulate(received.begin(), received.end(), 0.0);
  }
};

/// The computing of a step on one worker: first what comes before all layers that have something to
/// sum, then these. By factors, a layer's weight gradient, about half of its backward pass, is not
/// computed there; in its place comes the rebuild from all workers' factors, before the next
/// forward pass.
std::vector<LayerStep> computing_of(const PlanRequest& request, const std::vector<Scheme>& schemes);
/// The same on a node whose processor also moves these bytes, which prolongs all layers alike.
std::vector<LayerStep> computing_of(const PlanRequest& request, const std::vector<Scheme>& schemes,
                                    const LinkLoad& node);

/// The loads of all nodes of a plan.
std::vector<LinkLoad> link_loads(const Plan& plan);
/// The loads of nodes for layers with these schemes: one for all nodes that are alike.
std::vector<LinkLoad> link_loads(const PlanRequest& request, const EvenTraffic& traffic,
                                 const std::vector<Scheme>& schemes);

/// The predicted milliseconds of a step: those of the node, and of the direction of its link, that
/// all others wait for. 0 if times or link are not known.
double predicted_step_ms(const PlanRequest& request, const std::vector<Scheme>& schemes,
                         const std::vector<LinkLoad>& nodes);

}  // namespace poseidon::comm
