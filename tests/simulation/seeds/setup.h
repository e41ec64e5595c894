#pragma once

#include <string>

#include "comm/simulation/job.h"

namespace poseidon::comm {

/// A job of nodes some of which cannot reach each other, or exchange small messages only, from the
/// start. The nodes are members, or one that joins later: all of it a function of the seed.
SimulatedJobOptions setup_scenario(uint64_t seed);

/// What is wrong with the result of such a job; "" when nothing is. A job whose members lack a
/// connection ends before its first step and names two nodes that lack one. A joiner that lacks one
/// is left out, and the others finish.
std::string fault_in_setup(const SimulatedJobOptions& options, const SimulatedJobResult& result);

}  // namespace poseidon::comm
