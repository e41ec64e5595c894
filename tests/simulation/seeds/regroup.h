#pragma once

#include <string>
#include <vector>

#include "comm/simulation/job.h"

namespace poseidon::comm {

/// A job of a few steps, layers and samples that goes on after losses: a convolution, a batch norm
/// and two linear layers.
SimulatedJobOptions regrouping_job(int64_t workers, int64_t servers, int64_t shards,
                                   SchemeRule scheme);

/// Such a job on a bad network, with up to three faults, or a node that is cut off from all others,
/// or a worker that drifts, all of it a function of the seed: 2 to 4 workers, 1 to 3 servers, any
/// logical shards.
SimulatedJobOptions regrouping_scenario(uint64_t seed);
/// The same, and others come meanwhile.
SimulatedJobOptions joining_scenario(uint64_t seed);
/// The same without newcomers, with sums that are a step or two late.
SimulatedJobOptions late_scenario(uint64_t seed);

/// All workers and servers of a job.
std::vector<NodeId> nodes_of(const SimulatedJobOptions& options);

/// From this event on none of the others hears `node`, which hears none of them; but the
/// coordinator does.
std::vector<Fault> cut_off(NodeId node, const std::vector<NodeId>& nodes, uint64_t at_event);

/// What is wrong with the result of a job that goes on after losses; "" when nothing is: the values
/// are those of one process alone, each shard of a layer is summed once in the view that counts,
/// a job that could go on did, and with sums in flight it went back to a checkpoint.
std::string fault_in_regrouping(const SimulatedJobOptions& options,
                                const SimulatedJobResult& result);

}  // namespace poseidon::comm
