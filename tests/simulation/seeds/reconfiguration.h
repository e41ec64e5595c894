#pragma once

#include <string>
#include <vector>

#include "comm/simulation/job.h"

namespace poseidon::comm {

/// A job that continues after node failures. It has a few steps and samples, and four layers: a
/// convolution, a batch norm and two linear layers.
SimulatedJobOptions reconfiguration_job(int64_t workers, int64_t servers, int64_t shards,
                                        SchemeRule scheme, WireFormat wire = WireFormat::kFp32);

/// Such a job on a bad network: 2 to 4 workers, 1 to 3 servers, any number of logical shards. Up to
/// three faults happen, or one node is cut off from all other nodes, or one worker's replica
/// diverges. All is a function of the seed.
SimulatedJobOptions reconfiguration_scenario(uint64_t seed);
/// The same jobs, with nodes that join while the job runs.
SimulatedJobOptions joining_scenario(uint64_t seed);
/// Jobs like those of reconfiguration_scenario, with a staleness of 1 or 2 steps.
SimulatedJobOptions late_scenario(uint64_t seed);

/// All workers and servers of a job.
std::vector<NodeId> nodes_of(const SimulatedJobOptions& options);

/// The faults that cut `node` off from all other nodes, in both directions, from this event on. Its
/// connection to the coordinator remains.
std::vector<Fault> cut_off(NodeId node, const std::vector<NodeId>& nodes, uint64_t at_event);

/// Checks the result of a job that continues after node failures. Returns the first fault found; ""
/// if there is none: values must equal those of a single process. Each shard of a layer must be
/// summed once, in the view that counts. A job that could continue must continue. A job with sums
/// in flight must return to a checkpoint.
std::string fault_in_reconfiguration(const SimulatedJobOptions& options,
                                     const SimulatedJobResult& result);

}  // namespace poseidon::comm
