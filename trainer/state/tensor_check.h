#pragma once

#include "net/network.h"
#include "trainer/job/optimizer_config.h"

namespace poseidon::trainer {

/// Holds a worker's list of its tensors, as tensor_list() makes it, against what a worker of this
/// network can have: each weight once and in order, with its shape, and no more of optimizer state
/// and of the sums of `steps` steps than belongs to them. Throws ConfigError.
void check_tensors(const Json& list, const net::Network& network, const OptimizerConfig& optimizer,
                   int64_t steps);

}  // namespace poseidon::trainer
