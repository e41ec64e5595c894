#include "trainer/step/fitting_batch.h"

#include <numeric>

#include "trainer/step/optimizer.h"

namespace poseidon::trainer {

namespace {

/// Bytes that net and optimizer need for this global batch.
size_t bytes_with(const Job& job, layers::LayerFactory& factory, net::Net::Options options,
                  int64_t global_batch) {
  const net::Network network(job.network->json(), job.network->file(),
                             global_batch / job.config.logical_shards(), job.network->label_form());
  options.allocates_memory = false;
  if (options.factor_rows > 0) options.factor_rows = global_batch;
  net::Net net(network, factory, options);
  return net.memory().total() +
         (options.training ? Optimizer::bytes(job.config.optimizer, net) : 0);
}

}  // namespace

int64_t fitting_batch(const Job& job, layers::LayerFactory& factory, net::Net::Options options,
                      size_t available) {
  const JobConfig& config = job.config;
  const int64_t told_for = config.data.global_batch != 0 ? 1 : config.cluster.workers;
  // The global batch is a multiple of the number of shards. With batch_per_worker it is also a
  // multiple of the number of workers.
  const int64_t unit = std::lcm(config.logical_shards(), told_for);
  int64_t fits = 0, too_large = config.global_batch() / unit;
  while (too_large - fits > 1) {
    const int64_t middle = fits + (too_large - fits) / 2;
    const bool enough = bytes_with(job, factory, options, middle * unit) <= available;
    (enough ? fits : too_large) = middle;
  }
  return fits * unit / told_for;
}

}  // namespace poseidon::trainer
