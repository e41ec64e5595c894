#pragma once

#include "net/net.h"
#include "trainer/job/job.h"

namespace poseidon::trainer {

/// The largest value below the job's of JobConfig::batch_key() with which net and optimizer take no
/// more than `available` bytes; 0 where none is small enough. Makes nets, and takes no memory for
/// them.
int64_t fitting_batch(const Job& job, layers::LayerFactory& factory, net::Net::Options options,
                      size_t available);

}  // namespace poseidon::trainer
