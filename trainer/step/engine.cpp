#include "trainer/step/engine.h"

#include "core/error.h"
#include "core/memory.h"
#include "trainer/step/backends.h"

namespace poseidon::trainer {

namespace {

/// Where memory cannot be had, the user is told how much there is, and what would take less.
std::unique_ptr<net::Net> make_net(const Job& job, layers::LayerFactory& factory,
                                   const net::Net::Options& options) {
  const auto and_available = [&](const OutOfMemory& error) {
    return text(error.what(), "; ", bytes_text(factory.device().available()), " are available");
  };
  try {
    return std::make_unique<net::Net>(*job.network, factory, options);
  } catch (const net::BatchTooLarge& error) {
    if (job.network->batch() == 1) throw OutOfMemory(and_available(error));
    throw OutOfMemory(and_available(error) + ": reduce " + job.config.batch_key());
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(and_available(error));
  }
}

}  // namespace

Engine::Engine(const Job& job, const net::Net::Options& options, Log& log)
    : Engine(make_backend(job), job, options, log) {}

Engine::Engine(layers::Backend backend, const Job& job, const net::Net::Options& options, Log& log)
    : backend_(std::move(backend)), net_(make_net(job, *backend_.factory, options)) {
  for (const std::string& warning : net_->diagnosis().warnings()) log.warning(warning);
}

}  // namespace poseidon::trainer
