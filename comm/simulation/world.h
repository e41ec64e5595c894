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
  std::vector<Replica> sums = {};  ///< of the last steps up to `step`, which are in flight
};

/// The state that all nodes of a simulated job share.
struct SimulatedWorld {
  const SimulatedJobOptions& options;
  SimulatedNetwork& network;
  ComputeModel model;
  SimulatedJobResult& result;
  std::map<uint32_t, Plan> later_plans = {};          ///< by view, for the views after the first
  std::map<int64_t, SimulatedCheckpoint> saved = {};  ///< by step

  const Plan& plan(uint32_t view) const;
  /// The address at which other nodes reach `node`.
  std::string address_of(NodeId node) const;
  bool hangs(NodeId who, Work in) const;
  /// Whether the node arrives while the job runs.
  bool is_arrival(NodeId node) const;
  /// The options with which a worker or a server joins.
  Member::Options member_options(NodeId node) const;
};

}  // namespace poseidon::comm
