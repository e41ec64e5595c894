#pragma once

#include "net/network.h"
#include "trainer/job/optimizer_config.h"

namespace poseidon::trainer {

/// Checks a worker's list of tensors, from tensor_list(), against the network. The list must
/// contain each parameter and statistic once, in order and with its shape. The other tensors may
/// only be the EMA, the optimizer state, and the sums of at most `steps` steps, of this network and
/// optimizer. Each of them may occur once at most. Throws ConfigError.
void check_tensors(const Json& list, const net::Network& network, const OptimizerConfig& optimizer,
                   int64_t steps);

}  // namespace poseidon::trainer
