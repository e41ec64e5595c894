#pragma once

#include "net/net.h"
#include "trainer/job/job.h"

namespace poseidon::trainer {

/// Returns the largest value of the key JobConfig::batch_key(), below the job's value, for which
/// net and optimizer need at most `available` bytes; 0 if no batch fits. Creates nets without
/// allocating their memory.
int64_t fitting_batch(const Job& job, layers::LayerFactory& factory, net::Net::Options options,
                      size_t available);

}  // namespace poseidon::trainer
