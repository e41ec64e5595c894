#pragma once

#include <string>

#include "comm/simulation/job.h"

namespace poseidon::comm {

/// A job in which some nodes cannot reach each other from the start, or can exchange only small
/// messages. These nodes are members or a joiner. All is a function of the seed.
SimulatedJobOptions setup_scenario(uint64_t seed);

/// Checks the result of such a job. Returns the first fault found; "" if there is none. A job whose
/// members lack a connection must end before its first step and name two nodes that lack one. A
/// joiner that lacks a connection must be left out, and the other nodes must finish.
std::string fault_in_setup(const SimulatedJobOptions& options, const SimulatedJobResult& result);

}  // namespace poseidon::comm
