#pragma once

#include <memory>

#include "layers/backend.h"
#include "net/net.h"
#include "trainer/job/job.h"

namespace poseidon::trainer {

/// The compute resources of one device: the device that the job names, and the job's net on it.
/// Created and used by the compute thread.
class Engine {
 public:
  /// Uses the first device of the job. `job` and `log` must outlive this object. Logs the warnings
  /// of the net. Throws ConfigError. Throws OutOfMemory, which names the layer with the largest
  /// demand and, if there is one, a setting that needs less memory.
  Engine(const Job& job, const net::Net::Options& options, Log& log);
  /// As above, on the device of `backend`. Only `job` must outlive this object.
  Engine(layers::Backend backend, const Job& job, const net::Net::Options& options, Log& log);

  net::Net& net() { return *net_; }
  layers::Updater& updater() { return *backend_.updater; }
  int threads() const { return backend_.device->threads(); }

 private:
  layers::Backend backend_;
  std::unique_ptr<net::Net> net_;
};

}  // namespace poseidon::trainer
