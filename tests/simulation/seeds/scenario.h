#pragma once

#include <string>

#include "comm/simulation/job.h"

namespace poseidon::comm {

/// A small job of 2 to 5 workers and 10 steps on a bad network. It has up to two faults, and
/// possibly a node that hangs. The second fault can also happen while the job ends. All is a
/// function of the seed.
SimulatedJobOptions scenario(uint64_t seed);

/// "seed 17: 3 workers, 2 servers, ..., worker 1 crashes at event 4711".
std::string description(const SimulatedJobOptions& options);

/// Whether a user stopped the job before its first step.
bool halts_before_first_step(const SimulatedJobOptions& options, const SimulatedJobResult& result);

/// Checks a result. Returns the first fault found; "" if there is none. No run may idle, and every
/// sum must be counted once. A run that ends early must name the failed node and leave the
/// checkpoint of an undisturbed run.
std::string fault_in(const SimulatedJobOptions& options, const SimulatedJobResult& result);

}  // namespace poseidon::comm
