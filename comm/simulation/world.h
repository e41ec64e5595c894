#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/membership/member.h"
#include "comm/simulation/job.h"
#include "comm/simulation/model.h"
#include "comm/simulation/network.h"

namespace poseidon::comm {

/// A checkpoint that the coordinator of a simulated job has written.
struct SimulatedCheckpoint {
  int64_t step = 0;
  Replica values;
  std::vector<Replica> sums = {};  ///< of the last steps up to it, which are in flight
};

/// What all nodes of a simulated job know.
struct SimulatedWorld {
  const SimulatedJobOptions& options;
  SimulatedNetwork& network;
  ComputeModel model;
  SimulatedJobResult& result;
  std::map<uint32_t, Plan> later_plans = {};          ///< by view, of those after the first
  std::map<int64_t, SimulatedCheckpoint> saved = {};  ///< by step

  const Plan& plan(uint32_t view) const;
  /// Where the other nodes reach `node`.
  std::string address_of(NodeId node) const;
  bool hangs(NodeId who, Work in) const;
  /// Whether it comes while the job runs.
  bool is_arrival(NodeId node) const;
  /// How a worker or a server takes part.
  Member::Options member_options(NodeId node) const;
};

}  // namespace poseidon::comm
