#pragma once

#include <string>

#include "comm/simulation/job.h"

namespace poseidon::comm {

/// A small job on a bad network, with up to two faults, the second one also while the job comes to
/// its end, and work that hangs, all of it a function of the seed: 2 to 5 workers, 10 steps.
SimulatedJobOptions scenario(uint64_t seed);

/// "seed 17: 3 workers, 2 servers, ..., worker 1 crashes at event 4711".
std::string description(const SimulatedJobOptions& options);

/// Whether somebody has stopped the job before it began.
bool halts_before_first_step(const SimulatedJobOptions& options, const SimulatedJobResult& result);

/// What is wrong with a result; "" when nothing is. No run idles, every sum enters exactly once,
/// and a run that ends early names the right node and leaves the checkpoint of an undisturbed run.
std::string fault_in(const SimulatedJobOptions& options, const SimulatedJobResult& result);

}  // namespace poseidon::comm
