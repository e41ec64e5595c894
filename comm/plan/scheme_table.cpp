#include "comm/plan/scheme_table.h"

#include "comm/plan/scheme_choice.h"
#include "comm/plan/scheme_costs.h"

namespace poseidon::comm {

namespace {

Json cost_json(const PlanRequest& request, const EvenTraffic& traffic, const LayerTraffic& layer,
               Scheme scheme) {
  const SchemeCosts& costs = costs_of(scheme);
  if (!costs.fault_of(layer).empty()) return {};
  const LinkBytes bytes = costs.link_bytes(layer, traffic, traffic.mean());
  const ClusterSize cluster{static_cast<double>(request.workers),
                            static_cast<double>(request.servers)};
  return {{"bytes", bytes.sent + bytes.received},
          {"format", name_of(costs.format(layer, request.wire))},
          {"rebuild_gflop", 1e-9 * costs.rebuild_flop(layer, batch_per_worker(request), cluster)}};
}

}  // namespace

void add_scheme_table(const PlanRequest& request, const Plan& plan, bool follows, Json& json) {
  const EvenTraffic traffic(request);
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const LayerPlan& layer = plan.layers[i];
    Json& entry = json["layers"][i];
    for (const Scheme scheme : kSendingSchemes)
      entry["schemes"][name_of(scheme)] = cost_json(request, traffic, layer.traffic, scheme);
    entry["reason"] = follows ? "as in the earlier plan" : reason_of(request, layer.traffic);
  }
}

}  // namespace poseidon::comm
