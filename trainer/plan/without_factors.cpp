#include "trainer/plan/without_factors.h"

#include <algorithm>

#include "core/error.h"
#include "trainer/plan/sync_plan.h"

namespace poseidon::trainer {

namespace {

/// The setting that requires factors; "" if no setting does, so that the planner chose them.
std::string who_asks(const Job& job, const comm::PlanRequest& request) {
  if (std::ranges::any_of(request.layers, [](const comm::LayerTraffic& layer) {
        return layer.forced == comm::SchemeRule::kSfb;
      }))
    return "the network has a layer with \"scheme\": \"sfb\"";
  if (request.scheme == comm::SchemeRule::kSfb) return "comm.scheme is \"sfb\"";
  return job.config.comm.plan.empty() ? "" : "comm.plan has a layer with \"sfb\"";
}

}  // namespace

comm::Plan without_factors(const Job& job, const comm::Plan& plan, const std::string& fault) {
  comm::PlanRequest request = plan_request(job);
  const std::string asks = who_asks(job, request);
  if (!asks.empty())
    throw ConfigError(text(job.file, ": ", asks,
                           ", but factors need workers that all have fused multiply-add: ", fault,
                           ". Remove the setting, or choose --isa so that all workers or none "
                           "have it"));
  request.scheme = comm::SchemeRule::kPs;
  request.policy = comm::Policy::kBytes;
  request.assignment = plan.assignment;
  comm::Plan by_servers = comm::make_plan(request);
  by_servers.policy = plan.policy;
  by_servers.link_mbps = plan.link_mbps;
  by_servers.overlap = plan.overlap;
  return by_servers;
}

}  // namespace poseidon::trainer
