#pragma once

#include "net/network.h"
#include "trainer/job/optimizer_config.h"

namespace poseidon::trainer {

/// Checks a worker's list of tensors, from tensor_list(), against the network. The list must
/// contain each weight once, in order and with its shape. Its optimizer state, and its sums of at
/// most `steps` steps, may contain only tensors of this network and optimizer, each at most once.
/// Throws ConfigError.
void check_tensors(const Json& list, const net::Network& network, const OptimizerConfig& optimizer,
                   int64_t steps);

}  // namespace poseidon::trainer
