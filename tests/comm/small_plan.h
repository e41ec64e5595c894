#pragma once

#include <string>
#include <vector>

#include "comm/plan/plan.h"
#include "tests/comm/vgg19.h"

/// A small network for plans, and helpers to inspect a plan.
namespace poseidon::comm {

/// A convolution with batch norm, a large linear layer and a small one.
inline std::vector<LayerTraffic> small_network() {
  return {
      convolution_traffic("conv", 64, 576),
      {.name = "bn",
       .type = "batch_norm",
       .rows = 64,
       .columns = 1,
       .tensors = {{.name = "scale", .elements = 64, .exact = true},
                   {.name = "shift", .elements = 64, .exact = true},
                   {.name = "running_mean", .elements = 64, .statistic = true, .exact = true},
                   {.name = "running_variance", .elements = 64, .statistic = true, .exact = true}}},
      linear_traffic("fc1", 512, 1024),
      linear_traffic("fc2", 10, 512)};
}

/// The scheme of each layer, for example "PPSPS": P for parameter server, S for factors, L for
/// local.
inline std::string schemes_of(const Plan& plan) {
  std::string schemes;
  for (const LayerPlan& layer : plan.layers)
    schemes += layer.scheme == Scheme::kSfb ? 'S' : layer.scheme == Scheme::kPs ? 'P' : 'L';
  return schemes;
}

/// An assignment of these shard ranges to workers, each on a separate host. The first hosts have a
/// server each.
inline Assignment assigned(const std::vector<Part>& ranges, uint32_t servers) {
  std::vector<AssignedWorker> workers;
  for (const Part& range : ranges) {
    const auto rank = static_cast<uint32_t>(workers.size());
    workers.push_back({.shards = range, .host = rank, .member = rank});
  }
  std::vector<AssignedServer> all_servers;
  for (uint32_t rank = 0; rank < servers; ++rank)
    all_servers.push_back({.host = rank, .member = rank});
  return {std::move(workers), std::move(all_servers)};
}

/// The same plan with another assignment.
inline Plan with_assignment(Plan plan, Assignment assignment) {
  plan.assignment = std::move(assignment);
  complete(plan);
  return plan;
}

}  // namespace poseidon::comm
