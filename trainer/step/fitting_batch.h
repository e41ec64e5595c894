#pragma once

#include "net/net.h"
#include "trainer/job/job.h"

namespace poseidon::trainer {

/// Returns the largest batch below the job's, as a value of JobConfig::batch_key(), for which net
/// and optimizer need at most `available` bytes. Returns 0 if no batch fits. The run may need a
/// smaller batch, because batches and exchanges need memory too. Creates nets without allocating
/// their memory.
int64_t fitting_batch(const Job& job, layers::LayerFactory& factory, net::Net::Options options,
                      size_t available);

}  // namespace poseidon::trainer
