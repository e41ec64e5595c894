#pragma once

#include <numeric>
#include <vector>

#include "comm/plan/cost_model.h"
#include "comm/plan/plan.h"
#include "comm/plan/traffic.h"

/// The prediction of a step's time by the formulas of docs/plan.md.
namespace poseidon::comm {

/// The bytes that cross one node's link in a step, by layer.
struct LinkLoad {
  std::vector<double> sent, received;
  bool computes = true;  ///< whether the node has a worker

  double bytes() const {
    return std::accumulate(sent.begin(), sent.end(), 0.0) +
           std::accumulate(received.begin(), received.end(), 0.0);
  }
};

/// The computation of a step on one worker, in ms. The first entry is for the layers before the
/// first of `request.layers`. The other entries are for `request.layers`. With factors, a layer
/// does not compute its weight gradient, about half of its backward pass. Instead the worker
/// rebuilds the sum from all workers' factors, before the next forward pass.
std::vector<LayerStep> computing_of(const PlanRequest& request, const std::vector<Scheme>& schemes);
/// Like the other computing_of(), plus the processor time of network I/O for the load `node`. It
/// slows all layers by the same factor.
std::vector<LayerStep> computing_of(const PlanRequest& request, const std::vector<Scheme>& schemes,
                                    const LinkLoad& node);

/// The loads of all nodes of a plan.
std::vector<LinkLoad> link_loads(const Plan& plan);
/// The loads of nodes for layers with these schemes; one entry stands for all identical nodes.
std::vector<LinkLoad> link_loads(const PlanRequest& request, const EvenTraffic& traffic,
                                 const std::vector<Scheme>& schemes);

/// The predicted milliseconds of a step: the time of the slowest node and link direction. For a
/// single worker, the computation alone. 0: times, or the link of several workers, are not known.
double predicted_step_ms(const PlanRequest& request, const std::vector<Scheme>& schemes,
                         const std::vector<LinkLoad>& nodes);

}  // namespace poseidon::comm
