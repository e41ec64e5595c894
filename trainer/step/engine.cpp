#include "trainer/step/engine.h"

#include <algorithm>

#include "core/error.h"
#include "core/memory.h"
#include "trainer/step/backends.h"
#include "trainer/step/fitting_batch.h"

namespace poseidon::trainer {

namespace {

bool has_convolutions(const net::Network& network) {
  return std::ranges::any_of(network.nodes(), [](const net::Node& node) {
    return node.definition->type() == "convolution";
  });
}

/// Text for an OutOfMemory error: the available memory, and settings that need less memory.
std::string advice(const Job& job, layers::LayerFactory& factory,
                   const net::Net::Options& options) {
  const size_t available = factory.device().available();
  std::string advice = "; " + bytes_text(available) + " are available";
  const int64_t fitting = fitting_batch(job, factory, options, available);
  if (fitting == 0) return advice + ", too little for any batch";
  advice += text(": reduce ", job.config.batch_key(), " from ", job.config.batch(), " to at most ",
                 fitting);
  if (job.config.device.precision != kBf16Precision && has_convolutions(*job.network))
    advice += "; \"device.precision\": \"bf16\" needs less";
  return advice;
}

std::unique_ptr<net::Net> make_net(const Job& job, layers::LayerFactory& factory,
                                   const net::Net::Options& options) {
  try {
    return std::make_unique<net::Net>(*job.network, factory, options);
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(error.what() + advice(job, factory, options));
  }
}

}  // namespace

Engine::Engine(const Job& job, const net::Net::Options& options, Log& log)
    : Engine(make_backend(job, 0, &log), job, options, log) {}

Engine::Engine(layers::Backend backend, const Job& job, const net::Net::Options& options, Log& log)
    : backend_(std::move(backend)), net_(make_net(job, *backend_.factory, options)) {
  for (const std::string& warning : net_->diagnosis().warnings()) log.warning(warning);
}

}  // namespace poseidon::trainer
