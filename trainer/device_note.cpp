#include "trainer/device_note.h"

#include <algorithm>

#include "core/cores.h"
#include "core/counted.h"
#include "core/cpu/instruction_set.h"
#include "core/error.h"
#include "trainer/sync_plan.h"

namespace poseidon::trainer {

namespace {

std::string shown(const DeviceNote& device) {
  return text(device.arithmetic, ", ", counted(device.threads, "thread"));
}

/// Who asks for factors; "" when they were only thought best.
std::string who_asks(const Job& job, const comm::PlanRequest& request) {
  if (std::ranges::any_of(request.layers,
                          [](const comm::LayerTraffic& layer) { return layer.forced == "sfb"; }))
    return "the network has a layer with \"scheme\": \"sfb\"";
  if (request.scheme == "sfb") return "comm.scheme is \"sfb\"";
  return job.config.comm.plan.empty() ? "" : "comm.plan has a layer with \"sfb\"";
}

}  // namespace

void DeviceNote::describe(Fields& fields) {
  fields.text("arithmetic", arithmetic, "libraries and instruction sets", Presence::kRequired);
  fields.integer("threads", threads, between(1, 1 << 16), "that compute", Presence::kRequired);
}

DeviceNote device_note(int64_t threads) {
  return {.arithmetic = cpu::instruction_set(),
          .threads = threads > 0 ? threads : available_cores()};
}

std::string difference_of(const std::map<uint16_t, DeviceNote>& devices) {
  const auto& [first_rank, first] = *devices.begin();
  for (const auto& [rank, device] : devices)
    if (shown(device) != shown(first))
      return text("worker ", rank, " computes with ", shown(device), ", worker ", first_rank,
                  " with ", shown(first));
  return "";
}

comm::Plan without_factors(const Job& job, const comm::Plan& plan, const std::string& difference) {
  comm::PlanRequest request = plan_request(job);
  const std::string asks = who_asks(job, request);
  if (!asks.empty())
    throw ConfigError(
        text(job.file, ": ", asks, ", which takes workers that compute alike, but ", difference));
  request.scheme = "ps";
  request.policy = "bytes";
  comm::Plan by_servers = comm::make_plan(request);
  by_servers.policy = plan.policy;
  by_servers.link_mbps = plan.link_mbps;
  by_servers.overlap = plan.overlap;
  return by_servers;
}

}  // namespace poseidon::trainer
